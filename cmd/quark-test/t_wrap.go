package main

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// wrapRounds is how many processes recordWrap starts. The records of each fill a quarter
// of the ring at least, so that it wraps more than ten times.
const wrapRounds = 40

// recordWrap uses rings so small that many records go over their end. What is delivered
// has to be right. On a busy machine events can be lost, which has to be counted.
func recordWrap(t *test) {
	t.watch(tinyBuffers)
	t.each(func(v *view) {
		if v.backend == "cnproc" {
			v.Skipf("%s has no ring", v.backend)
		}
	})
	dir := t.TempDir()
	tiny := filepath.Join(dir, "tiny")
	if err := tinyelf.Write(tiny, 0); err != nil {
		t.Fatalf("%v", err)
	}
	var all []wrapRound
	for i := range wrapRounds {
		// Records of many lengths, so that the end of the ring is at each place in them.
		argv := []string{"tiny", itoa(i), strings.Repeat(string(rune('a'+i%26)), 1500+i*37%500)}
		p := t.spawn(script().Call("chdir", unix.SYS_CHDIR, dir).Exec(tiny, argv, nil), barefork{Share: true})
		t.reap(p)
		t.pump()
		all = append(all, wrapRound{p, map[engine.Field]string{
			engine.FieldArgs: strings.Join(argv, "\x00") + "\x00", engine.FieldExe: tiny, engine.FieldCwd: dir,
			engine.FieldComm: "tiny", engine.FieldPPID: itoa(os.Getpid()),
		}})
	}
	t.each(func(v *view) {
		t.awaitRecovery(v, onlineCPUs(t))
		v.checkWrap(all)
	})
}

// wrapRound is a process, and what its EXEC has to report.
type wrapRound struct {
	*proc
	want map[engine.Field]string
}

// checkWrap checks the events of all rounds.
func (v *view) checkWrap(all []wrapRound) {
	var missing uint64
	var whole int
	for _, r := range all {
		for _, kind := range []engine.Events{engine.EventFork, engine.EventExec, engine.EventExit} {
			switch n := v.count(r.proc, kind); {
			case n == 0:
				missing++
				v.Logf("pid %d has no %s: %s", r.PID, kind, v.history(r.proc))
			case n > 1:
				v.Errorf("pid %d: %d events with %s: %s", r.PID, n, kind, v.history(r.proc))
			}
		}
		for _, ev := range v.of(r.proc) {
			if ev.Events.Has(engine.EventExit) {
				v.checkExit(ev, r.proc, true)
			}
			if !ev.Events.Has(engine.EventExec) {
				continue
			}
			known := 0
			for f, want := range r.want {
				if v.q.Capabilities().Fields[f].Origin != engine.OriginKernel {
					known++ // no record has it
					continue
				}
				switch got := truth.ValueOf(ev.Process, f); {
				case !ev.Process.Known.Has(f) || ev.Process.Truncated.Has(f):
				case got != want:
					v.Errorf("pid %d: %s is %q, want %q", r.PID, f, got, want)
				default:
					known++
				}
			}
			if known == len(r.want) {
				whole++
			}
		}
	}
	s := v.counted()
	lost := s.Lost() - v.before.Lost()
	v.Logf("%d of %d EXEC are whole, %d events are missing, %d lost %v", whole, len(all), missing, lost, s.Source.Lost)
	if lost < missing {
		v.Errorf("%d events are missing, %d are counted as lost", missing, lost)
	}
	if n := s.Source.Lost[engine.LossDecode]; n > 0 {
		v.Errorf("%d records made no sense", n)
	}
	if uint64(whole)+lost < uint64(len(all)) {
		v.Errorf("%d of %d EXEC are whole, and only %d events were lost", whole, len(all), lost)
	}
	if whole < len(all)/4 {
		v.Errorf("%d of %d EXEC are whole: too few to show that records go over the end of the ring", whole, len(all))
	}
}
