package monitor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// perf returns perf(1). It records task events and prints them in a pipeline. It also records a
// tracepoint, which wakes perf for each process that ends; task events alone wake perf only when a
// buffer is half full. Other monitors attach no eBPF program to this tracepoint: perf loses the
// events for which such a program returns 0, as exitsnoop's does on sched_process_exit. It also
// records a clock: perf script prints an event after two more reads of all buffers, and reads them
// only if they have data. Without the clock, events on an idle machine would be seconds late.
func perf() *Monitor {
	return &Monitor{
		Name: "perf", Version: []string{"--version"}, Package: "linux-perf", Programs: []string{"sh"}, Terminal: true, Tracefs: true, Needs: []string{"perf"},
		Arguments: []string{"-c", "trap '' INT; (trap - INT; exec perf record -q -a -k CLOCK_MONOTONIC --no-buffering -e sched:sched_process_free -e cpu-clock/period=50000000/ " +
			"--no-buildid --no-buildid-cache -o -) | perf --no-pager script -i - --show-task-events --show-lost-events --ns -F comm,pid,tid,time,event"},
		Table: table(map[engine.Kind]string{
			engine.KindFork: "PERF_RECORD_FORK with pid = tid", engine.KindExec: "PERF_RECORD_COMM exec",
			engine.KindExit: "PERF_RECORD_EXIT of the leader", engine.KindSetProcTitle: "PERF_RECORD_COMM",
		}, []claim{
			{engine.FieldPPID, atFork | atExit, "of a fork, who called it"},
			{engine.FieldComm, atExec | engine.EventSetProcTitle, "PERF_RECORD_COMM"},
		}, "stamps are of CLOCK_MONOTONIC"),
		Foreign: score.Tolerance{Early: 1, Late: 1},
		Decoder: func() Decoder { return perfDecoder{} },
	}
}

type perfDecoder struct{}

var (
	perfTask = regexp.MustCompile(`^PERF_RECORD_(FORK|EXIT)\((-?\d+):(-?\d+)\):\((-?\d+):(-?\d+)\)`)
	perfComm = regexp.MustCompile(`^PERF_RECORD_COMM( exec)?: (.*):(-?\d+)/(-?\d+)$`)
	perfLost = regexp.MustCompile(`^PERF_RECORD_LOST.* lost (\d+)`)
	perfTime = regexp.MustCompile(`(\d+)\.(\d{9}): +$`)
)

func (perfDecoder) Decode(line []byte, _ uint64, to *Output) error {
	text := strings.TrimRight(string(line), "\r ")
	i := strings.Index(text, "PERF_RECORD_")
	if i < 0 {
		return nil // a sample of the tracepoint or of the clock
	}
	record := text[i:]
	if m := perfLost.FindStringSubmatch(record); m != nil {
		n, err := strconv.ParseUint(m[1], 10, 32)
		to.Lost += n
		return err
	}
	when := perfTime.FindStringSubmatch(text[:i])
	if when == nil {
		return fmt.Errorf("no time before the record")
	}
	at, err := strconv.ParseUint(when[1]+when[2], 10, 64)
	if err != nil || at == 0 {
		return err // a process that is older than the recording
	}
	if m := perfTask.FindStringSubmatch(record); m != nil {
		if m[2] != m[3] {
			return nil // a thread
		}
		pid, err := strconv.ParseUint(m[2], 10, 32)
		ppid, err2 := strconv.ParseUint(m[4], 10, 32)
		if err != nil || err2 != nil {
			return fmt.Errorf("invalid pid")
		}
		kind := engine.KindFork
		if m[1] == "EXIT" {
			kind = engine.KindExit
		}
		_, p := to.add(kind, uint32(pid), at)
		setParent(p, uint32(ppid))
		p.Exited = kind == engine.KindExit
		return nil
	}
	m := perfComm.FindStringSubmatch(record)
	if m == nil {
		return fmt.Errorf("unknown record")
	}
	if m[3] != m[4] {
		return nil
	}
	pid, err := strconv.ParseUint(m[3], 10, 32)
	if err != nil {
		return fmt.Errorf("invalid pid")
	}
	kind := engine.KindSetProcTitle
	if m[1] != "" {
		kind = engine.KindExec
	}
	_, p := to.add(kind, uint32(pid), at)
	setComm(p, m[2])
	return nil
}
