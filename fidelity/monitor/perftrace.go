package monitor

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// perfTrace is perf trace(1) of the whole machine: three tracepoints, and the calls that execute
// and fail. It prints to standard error, without a buffer.
func perfTrace() *Monitor {
	return &Monitor{
		Name: "perf-trace", Version: []string{"--version"}, Package: "linux-perf", Programs: []string{"sh"}, Tracefs: true, Needs: []string{"perf"},
		Arguments: []string{"-c", "exec perf trace -a -T --failure -e execve,execveat,task:task_newtask,sched:sched_process_exec,sched:sched_process_exit 2>&1"},
		Table: table(map[engine.Kind]string{
			engine.KindFork: "task_newtask without CLONE_THREAD", engine.KindExec: "sched_process_exec",
			engine.KindExecFailed: "execve and execveat below 0, of which each path is unknown",
			engine.KindExit:       "sched_process_exit of the last thread; before Linux 6.16, which does not say which that is, of the leader",
		}, []claim{
			{engine.FieldPPID, atFork, "the process that forked, or a thread of it that was there before perf"},
			{engine.FieldComm, atLife, "comm"},
			{engine.FieldExecPath, atExec, "the tracepoint's filename"},
		}, "a stamp is of a clock that others cannot read, so that the arrival of a line is its time",
			"of the arguments of a call the addresses are printed, and of an end no status"),
		Foreign: score.Foreign{NoStamps: true, Late: uint64(10 * time.Second)},
		Decoder: func() Decoder { return &perfTraceDecoder{threads: make(map[uint32]uint32)} },
	}
}

// perfTraceDecoder keeps of which process a thread is that a line told of. dead is set when a line
// has had group_dead: a member that is 0 is not printed.
type perfTraceDecoder struct {
	threads map[uint32]uint32
	dead    bool
}

// process returns the process of a thread. One that was there before is taken as a process.
func (d *perfTraceDecoder) process(tid uint32) uint32 {
	if pid, ok := d.threads[tid]; ok {
		return pid
	}
	return tid
}

var (
	// When, how long a call took, and who; of the name there are 14 bytes.
	traceHead = regexp.MustCompile(`^ *(?:\d+\.\d{3}|\?) (?:\([^()]*\): )?.*/(\d+) +$`)
	traceTask = regexp.MustCompile(`^pid: (\d+).*?, comm: "(.*)"(?:, clone_flags: (\d+))?(?:, oom_score_adj: -?\d+)?\)$`)
	traceExec = regexp.MustCompile(`^filename: "(.*)", pid: \d+ \((.*)\), old_pid: \d+`)
	traceExit = regexp.MustCompile(`^comm: "(.*)", pid: (\d+).*, prio: -?\d+(?:, group_dead: (1))?\)$`)
	traceFail = regexp.MustCompile(` = -1 ([A-Z0-9]+) \(`)
)

// Beginnings of what a line says after who did it.
const (
	traceNewTask = "task:task_newtask("
	traceExecve  = "sched:sched_process_exec("
	traceEnd     = "sched:sched_process_exit("
)

func (d *perfTraceDecoder) Decode(line []byte, at uint64, to *Output) error {
	text := string(line)
	if lost, ok := lostLine(text, to); ok {
		return lost
	}
	if strings.HasPrefix(text, "Can't parse sample") { // perf goes on with the next one
		to.Lost++
		return nil
	}
	for _, what := range []string{traceNewTask, traceExecve, traceEnd, "execve(", "execveat(", " ... [continued]: execve"} {
		before, rest, ok := strings.Cut(text, what)
		if !ok {
			continue
		}
		head := traceHead.FindStringSubmatch(before)
		if head == nil {
			return fmt.Errorf("no time and thread at its beginning")
		}
		tid, err := strconv.ParseUint(head[1], 10, 32)
		if err != nil {
			return fmt.Errorf("no thread: %w", err)
		}
		return d.event(what, uint32(tid), rest, at, to)
	}
	return fmt.Errorf("no event")
}

// event decodes what follows the name of an event.
func (d *perfTraceDecoder) event(what string, tid uint32, rest string, at uint64, to *Output) error {
	switch what {
	case traceNewTask:
		const cloneThread = 0x10000
		m := traceTask.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("no new task")
		}
		pid, err := strconv.ParseUint(m[1], 10, 32)
		flags, err2 := strconv.ParseUint(cmp.Or(m[3], "0"), 10, 64)
		if err != nil || err2 != nil {
			return fmt.Errorf("a number that is none")
		}
		if flags&cloneThread != 0 {
			d.threads[uint32(pid)] = d.process(tid)
			return nil
		}
		delete(d.threads, uint32(pid))
		_, p := to.add(engine.KindFork, uint32(pid), at)
		setParent(p, d.process(tid))
		setComm(p, m[2])
	case traceExecve:
		m := traceExec.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("no exec")
		}
		delete(d.threads, tid)
		_, p := to.add(engine.KindExec, tid, at)
		p.Known, p.ExecPath = p.Known.With(engine.FieldExecPath), m[1]
		setComm(p, m[2])
	case traceEnd:
		m := traceExit.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("no end")
		}
		pid := d.process(tid)
		delete(d.threads, tid)
		d.dead = d.dead || m[3] != ""
		if m[3] == "" && (d.dead || pid != tid) {
			return nil
		}
		ev, p := to.add(engine.KindExit, pid, at)
		ev.Process.Exited = true
		setComm(p, m[1])
	default:
		m := traceFail.FindStringSubmatch(rest)
		if m == nil {
			return nil // it has not returned yet
		}
		ev, _ := to.add(engine.KindExecFailed, d.process(tid), at)
		ev.Failed.Errno = straceErrno(m[1])
	}
	return nil
}
