package monitor

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

//go:embed bpftrace.bt
var bpftraceScript string

// bpftraceText is the size of a text in the script, including the final NUL.
const bpftraceText = 200

// bpftrace is bpftrace(8) with a typical script.
func bpftrace() *Monitor {
	return &Monitor{
		Name: "bpftrace", Version: []string{"--version"}, Package: "bpftrace", Programs: []string{"bpftrace"}, Arguments: []string{"-e", bpftraceScript},
		Environment: []string{"BPFTRACE_STRLEN=" + strconv.Itoa(bpftraceText)}, Tracefs: true, Terminal: true,
		Table: table(map[engine.Kind]string{
			engine.KindFork: "task_newtask without CLONE_THREAD", engine.KindExec: "sched_process_exec",
			engine.KindExit: "sched_process_exit of the leader",
		}, []claim{
			{engine.FieldPPID, atLife, "who forked; later curtask->real_parent"},
			{engine.FieldUIDs, atLife, "uid, the real one"},
			{engine.FieldComm, atLife, "comm"},
			{engine.FieldExecPath, atExec, "the tracepoint's filename, cut at 199 bytes"},
			{engine.FieldExit, atExit, "curtask->exit_code of the leader"},
		}, "stamps are of CLOCK_BOOTTIME; lines of each CPU come in order"),
		// The clocks differ by some microseconds.
		Foreign: score.Tolerance{Early: 50_000, Late: 50_000, As: realOnly},
		Decoder: func() Decoder { return bpftraceDecoder{truth.BootOffset()} },
	}
}

type bpftraceDecoder struct{ boot uint64 }

func (d bpftraceDecoder) Decode(line []byte, _ uint64, to *Output) error {
	text := strings.TrimSuffix(string(line), "\r")
	if text == "" || text == "ready" || strings.HasPrefix(text, "Attaching ") {
		return nil
	}
	if lost, ok := lostLine(text, to); ok {
		return lost
	}
	parts := strings.Split(text, "\t")
	words := strings.Fields(parts[0])
	if len(words) == 0 {
		return fmt.Errorf("no event")
	}
	want, ok := map[string]struct {
		kind         engine.Kind
		words, parts int
	}{"fork": {engine.KindFork, 5, 2}, "exec": {engine.KindExec, 5, 3}, "exit": {engine.KindExit, 6, 2}}[words[0]]
	if !ok || len(words) != want.words || len(parts) != want.parts {
		return fmt.Errorf("no event")
	}
	n := make([]uint64, len(words))
	for i := 1; i < len(words); i++ {
		var err error
		if n[i], err = strconv.ParseUint(words[i], 10, 64); err != nil || i > 1 && n[i] >= 1<<32 {
			return fmt.Errorf("%q is not a number", words[i])
		}
	}
	ev, p := to.add(want.kind, uint32(n[2]), max(n[1], d.boot)-d.boot)
	setParent(p, uint32(n[3]))
	setUser(p, uint32(n[4]), uint32(n[4]))
	setComm(p, parts[1])
	switch want.kind {
	case engine.KindExec:
		p.Known, p.ExecPath = p.Known.With(engine.FieldExecPath), parts[2]
		if len(p.ExecPath) >= bpftraceText-1 {
			p.Truncated = engine.FieldExecPath.Set()
		}
	case engine.KindExit:
		setExit(ev, int32(n[5]))
	}
	return nil
}
