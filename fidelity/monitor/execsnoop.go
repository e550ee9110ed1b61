package monitor

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// execsnoop returns execsnoop of libbpf-tools. It prints the arguments from the entry of execve(2),
// with the path in place of the first argument.
func execsnoop() *Monitor {
	const args = "the call's arguments, of which each is cut at 127 bytes, and the 21st"
	return &Monitor{
		Name: "execsnoop", Version: []string{"--version"}, Package: "libbpf-tools", Programs: []string{"execsnoop-libbpf", "execsnoop"},
		Arguments: []string{"-T", "-x", "-U", "-q"}, Terminal: true, Tracefs: true,
		Table: table(map[engine.Kind]string{
			engine.KindExec: "RET 0", engine.KindExecFailed: "RET below 0",
		}, []claim{
			{engine.FieldPPID, atExec, "PPID"},
			{engine.FieldUIDs, atExec, "UID, the real one before the exec"},
			{engine.FieldComm, atExec, "PCOMM"},
			{engine.FieldExecPath, atExec, "the first of ARGS"},
			{engine.FieldArgs, atExec, args},
		}, "a line has a second, so that its arrival is its time"),
		Foreign: score.Tolerance{NoStamps: true, Late: uint64(10 * time.Second), As: realOnly},
		Decoder: func() Decoder { return execsnoopDecoder{} },
	}
}

// execsnoopDecoder decodes lines of execsnoop.
type execsnoopDecoder struct{}

// execsnoopLine matches a line: user id, name, pid, parent, result and arguments. The name is in a
// column of 16 bytes, and may contain spaces.
var execsnoopLine = regexp.MustCompile(`^\d\d:\d\d:\d\d (\d+) {0,5}(.{1,16}?) +(\d+) +(\d+) +(-?\d+) *(|".*)$`)

func (execsnoopDecoder) Decode(line []byte, at uint64, to *Output) error {
	text := strings.TrimSuffix(string(line), "\r")
	if strings.HasPrefix(text, "TIME") || text == "" {
		return nil
	}
	if lost, ok := lostLine(text, to); ok {
		return lost
	}
	m := execsnoopLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("no columns of execsnoop")
	}
	uid, err := strconv.ParseUint(m[1], 10, 32)
	pid, err2 := strconv.ParseUint(m[3], 10, 32)
	ppid, err3 := strconv.ParseUint(m[4], 10, 32)
	result, err4 := strconv.ParseInt(m[5], 10, 32)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	args, cut := snoopArgs(m[6])
	kind := engine.KindExec
	if result < 0 {
		kind = engine.KindExecFailed
	}
	ev, p := to.add(kind, uint32(pid), at)
	setParent(p, uint32(ppid))
	setUser(p, uint32(uid), uint32(uid))
	setComm(p, strings.TrimRight(m[2], " "))
	switch {
	case len(args) == 0:
	case result < 0:
		ev.Failed = engine.FailedExec{Errno: uint16(-result), Path: args[0], PathKnown: true, PathTruncated: len(args[0]) == snoopArg}
	default:
		p.Known = p.Known.With(engine.FieldExecPath).With(engine.FieldArgs)
		p.ExecPath, p.Image.Args = args[0], []byte(strings.Join(args, "\x00")+"\x00")
		if len(args[0]) == snoopArg {
			p.Truncated = p.Truncated.With(engine.FieldExecPath)
		}
		if cut || len(args[len(args)-1]) == snoopArg {
			p.Truncated, p.Image.Args = p.Truncated.With(engine.FieldArgs), p.Image.Args[:len(p.Image.Args)-1]
		}
	}
	return nil
}

// snoopArg is the maximum number of bytes of a printed argument. Longer arguments are truncated.
const snoopArg = 127

// snoopArgs splits the quoted arguments. A backslash escapes a quote within an argument, but not a
// backslash. cut is set if execsnoop omitted arguments.
func snoopArgs(text string) (args []string, cut bool) {
	text, cut = strings.CutSuffix(text, " ...")
	for {
		text = strings.TrimLeft(text, " ")
		if len(text) == 0 || text[0] != '"' {
			return args, cut
		}
		var arg strings.Builder
		i := 1
		for ; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' && i+1 < len(text) && text[i+1] == '"' {
				i++
			}
			arg.WriteByte(text[i])
		}
		args = append(args, arg.String())
		text = text[min(i+1, len(text)):]
	}
}

// lostLine decodes reports of lost events by programs of libbpf-tools and bpftrace, such as "Lost
// 12 events on CPU #1!".
func lostLine(text string, to *Output) (err error, ok bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(text), "lost ")
	if !ok {
		return nil, false
	}
	number, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	to.Lost += n
	return err, true
}
