package monitor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// strace is strace(1) attached to this process, the ancestor of all scenario processes. Each traced
// system call stops its process.
func strace() *Monitor {
	return &Monitor{
		Name: "strace", Version: []string{"--version"}, Package: "strace", Programs: []string{"strace"}, File: true, Apart: true, Traces: true,
		// SIGURG is left out, as Go's runtime interrupts threads with it. strace does not
		// print an end by an untraced signal, so the others are traced. Output goes to a
		// file: on a full pipe strace would wait for this process, which waits for strace.
		Arguments: []string{"-f", "-q", "-ttt", "-xx", "-s", "131072", "-e", "signal=!SIGURG", "-e", "trace=process", "-o", "{}", "-p", strconv.Itoa(os.Getpid())},
		Table: table(map[engine.Kind]string{
			engine.KindFork: "fork, vfork, clone, clone3 without CLONE_THREAD", engine.KindExec: "execve, execveat",
			engine.KindExecFailed: "their errors", engine.KindExit: "exited with, killed by",
		}, []claim{
			{engine.FieldPPID, atFork, "who called fork"},
			{engine.FieldExecPath, atExec, "the call's path"},
			{engine.FieldArgs, atExec, "the call's arguments"},
			{engine.FieldExit, atExit, "exited with, killed by"},
		}, "of a fork in a pid namespace the pid is the one there; stamps are of CLOCK_REALTIME, taken by strace"),
		Foreign: score.Tolerance{Early: 50_000, Late: 20_000_000},
		Decoder: func() Decoder {
			return &straceDecoder{wall: truth.WallOffset(), threads: make(map[uint32]uint32), begun: make(map[uint32]string)}
		},
	}
}

type straceDecoder struct {
	wall    int64
	threads map[uint32]uint32 // the process of each thread other than the leader
	begun   map[uint32]string // calls in progress, by thread
}

// Decode uses no regular expressions, which would dominate its time.
func (d *straceDecoder) Decode(line []byte, _ uint64, to *Output) error {
	tid, now, text, err := d.head(string(line))
	if err != nil {
		return err
	}
	if what, ok := strings.CutPrefix(text, "+++ "); ok {
		return d.decodeEnd(tid, now, what, to)
	}
	if begun, ok := cutBegun(text); ok {
		d.begun[tid] = begun
		return nil
	}
	if rest, ok := strings.CutPrefix(text, "<... "); ok {
		if _, rest, ok = strings.Cut(rest, " resumed>"); ok {
			text = d.begun[tid] + rest
			delete(d.begun, tid)
		}
	}
	name, args, ok := strings.Cut(text, "(")
	if !ok {
		return nil
	}
	args, number, errno, ok := straceResult(args)
	if !ok || number == "?" {
		return nil // the call did not return
	}
	result, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return fmt.Errorf("no result: %w", err)
	}
	switch name {
	case "fork", "vfork", "clone", "clone3":
		d.fork(tid, now, args, result, to)
	case "execve", "execveat":
		return d.exec(tid, now, name, args, errno, result, to)
	}
	return nil
}

// head splits the thread and the time, in seconds with six decimals, off a line.
func (d *straceDecoder) head(text string) (tid uint32, at uint64, rest string, err error) {
	number, rest, _ := strings.Cut(text, " ")
	when, rest, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
	seconds, decimals, _ := strings.Cut(when, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	ns, err2 := strconv.ParseInt(seconds+decimals+"000", 10, 64)
	if !ok || err != nil || err2 != nil || len(decimals) != 6 || ns < 0 {
		return 0, 0, "", fmt.Errorf("no pid and time at the start")
	}
	return uint32(n), uint64(max(ns-d.wall, 0)), rest, nil
}

// decodeEnd decodes the text between +++ signs: how a thread ended, or that the thread took over
// the leader's pid.
func (d *straceDecoder) decodeEnd(tid uint32, now uint64, what string, to *Output) error {
	what, ok := strings.CutSuffix(what, " +++")
	if !ok {
		return nil
	}
	if number, ok := strings.CutPrefix(what, "superseded by execve in pid "); ok {
		n, err := strconv.ParseUint(number, 10, 32)
		d.begun[tid] = d.begun[uint32(n)]
		delete(d.begun, uint32(n))
		delete(d.threads, uint32(n))
		return err
	}
	if code, ok := strings.CutPrefix(what, "exited with "); ok {
		return d.end(tid, now, code, "", false, to)
	}
	if signal, ok := strings.CutPrefix(what, "killed by "); ok {
		signal, core := strings.CutSuffix(signal, " (core dumped)")
		return d.end(tid, now, "", signal, core, to)
	}
	return nil
}

// cutBegun returns the start of a call that ends on a later line.
func cutBegun(text string) (begun string, ok bool) {
	if !strings.HasSuffix(text, " ...>") {
		return "", false
	}
	i := strings.LastIndex(text, " <")
	if i < 0 || !strings.HasPrefix(text[i:], " <unfinished ") && !strings.HasPrefix(text[i:], " <pid changed to ") {
		return "", false
	}
	return text[:i], true
}

// straceResult splits the arguments of a call from its result and the name of an error: `"x") = -1
// ENOENT (No such file or directory)`. No text in the arguments contains a plain space.
func straceResult(text string) (args, result, errno string, ok bool) {
	i := strings.LastIndex(text, " = ")
	if i < 0 {
		return "", "", "", false
	}
	args, ok = strings.CutSuffix(strings.TrimRight(text[:i], " "), ")")
	result, rest, _ := strings.Cut(text[i+len(" = "):], " ")
	if strings.HasPrefix(rest, "E") {
		errno, _, _ = strings.Cut(rest, " ")
	}
	return args, result, errno, ok
}

// process returns the process of a thread. Threads of this process may be older than strace.
func (d *straceDecoder) process(tid uint32) uint32 {
	if pid, ok := d.threads[tid]; ok {
		return pid
	}
	if unix.Tgkill(os.Getpid(), int(tid), 0) == nil {
		return uint32(os.Getpid())
	}
	return tid
}

func (d *straceDecoder) fork(tid uint32, at uint64, args string, result int64, to *Output) {
	child := uint32(result)
	switch {
	case result <= 0:
	case strings.Contains(args, "CLONE_THREAD"):
		d.threads[child] = d.process(tid)
	default:
		delete(d.threads, child)
		_, p := to.add(engine.KindFork, child, at)
		if !strings.Contains(args, "CLONE_PARENT") {
			setParent(p, d.process(tid))
		}
	}
}

func (d *straceDecoder) exec(tid uint32, at uint64, name, args, errno string, result int64, to *Output) error {
	texts, cut := straceTexts(args)
	if result != 0 {
		ev, _ := to.add(engine.KindExecFailed, d.process(tid), at)
		ev.Failed.Errno = uint16(errnoOf(errno))
		if len(texts) > 0 && name == "execve" {
			ev.Failed.Path, ev.Failed.PathKnown = texts[0], true
		}
		return nil
	}
	_, p := to.add(engine.KindExec, d.process(tid), at)
	if len(texts) == 0 {
		return fmt.Errorf("exec without a path")
	}
	if name == "execve" {
		p.Known, p.ExecPath = p.Known.With(engine.FieldExecPath), texts[0]
	}
	p.Known = p.Known.With(engine.FieldArgs)
	for _, arg := range texts[1:] {
		p.Image.Args = append(append(p.Image.Args, arg...), 0)
	}
	if cut {
		p.Truncated = engine.FieldArgs.Set()
	}
	return nil
}

// errnoOf returns the number of the name of an error, 0 if there is none.
func errnoOf(name string) (n uint16) {
	for e := unix.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == name {
			return uint16(e)
		}
	}
	return 0
}

// straceTexts returns the printed texts of an exec: its path and its argument list.
func straceTexts(args string) (texts []string, cut bool) {
	inList := false
	for len(args) > 0 {
		switch c := args[0]; {
		case c == '[':
			inList = true
		case c == ']':
			return texts, cut
		case strings.HasPrefix(args, "..."):
			cut = true
		case c == '"':
			end := strings.IndexByte(args[1:], '"')
			if end < 0 {
				return texts, true
			}
			text := make([]byte, 0, end/4)
			for hex := range strings.SplitSeq(args[1:1+end], `\x`) {
				if b, err := strconv.ParseUint(hex, 16, 8); err == nil {
					text = append(text, byte(b))
				}
			}
			texts = append(texts, string(text))
			args = args[1+end:]
		case c == ' ' && !inList && strings.HasPrefix(args, " NULL"):
			return texts, cut
		}
		args = args[1:]
	}
	return texts, cut
}

func (d *straceDecoder) end(tid uint32, at uint64, code, signal string, core bool, to *Output) error {
	delete(d.begun, tid)
	if _, thread := d.threads[tid]; thread {
		delete(d.threads, tid)
		return nil
	}
	var status int32
	if code != "" {
		n, err := strconv.ParseUint(code, 10, 8)
		if err != nil {
			return fmt.Errorf("no code: %w", err)
		}
		status = int32(n) << 8
	} else {
		s, ok := signalOf(signal)
		if !ok {
			return fmt.Errorf("no signal %.20q", signal)
		}
		if status = s; core {
			status |= 0x80
		}
	}
	ev, _ := to.add(engine.KindExit, tid, at)
	setExit(ev, status)
	return nil
}

// signalOf returns a signal by strace's name: SIGRT_8 is the eighth real-time signal after
// SIGRTMIN, which is 34 in C programs and 32 here.
func signalOf(name string) (n int32, ok bool) {
	if rest, rt := strings.CutPrefix(name, "SIGRT_"); rt {
		n, err := strconv.ParseUint(rest, 10, 6)
		return int32(n) + 32, err == nil && n < 33
	}
	if name == "SIGRTMIN" {
		return 32, true
	}
	s := unix.SignalNum(name)
	return int32(s), s != 0
}
