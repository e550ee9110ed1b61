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

// wrapRounds is the number of processes that recordWrap starts. The records of each fill at least a
// quarter of the ring, so that the ring wraps more than ten times.
const wrapRounds = 40

// recordWrap uses very small rings, so that many records wrap around their end. Delivered events
// must be correct. Events lost on a busy machine must be counted.
func recordWrap(t *test) {
	t.watch(tinyBuffers)
	t.eachQueue(func(v *view) {
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
		// Records of many lengths wrap at many offsets.
		argv := []string{"tiny", itoa(i), strings.Repeat(string(rune('a'+i%26)), 1500+i*37%500)}
		p := t.spawn(script().Call("chdir", unix.SYS_CHDIR, dir).Exec(tiny, argv, nil), barefork{Share: true})
		t.reap(p)
		t.pump()
		all = append(all, wrapRound{p, map[engine.Field]string{
			engine.FieldArgs: strings.Join(argv, "\x00") + "\x00", engine.FieldExe: tiny, engine.FieldCwd: dir,
			engine.FieldComm: "tiny", engine.FieldPPID: itoa(os.Getpid()),
		}})
	}
	t.eachQueue(func(v *view) {
		t.awaitRecovery(v, onlineCPUs(t))
		v.checkWrap(all)
	})
}

// wrapRound is a process, and the values that its EXEC must report.
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
				v.Errorf("pid %d: got %d events with %s, want 1: %s", r.PID, n, kind, v.history(r.proc))
			}
		}
		for _, ev := range v.eventsOf(r.proc) {
			if ev.Events.Has(engine.EventExit) {
				v.checkExit(ev, r.proc, true)
			}
			if !ev.Events.Has(engine.EventExec) {
				continue
			}
			known := 0
			for f, want := range r.want {
				if v.q.Capabilities().Fields[f].Origin != engine.OriginKernel {
					known++ // not part of the records
					continue
				}
				switch got := truth.ValueOf(ev.Process, f); {
				case !ev.Process.Known.Has(f) || ev.Process.Truncated.Has(f):
				case got != want:
					v.Errorf("pid %d: %s: got %q, want %q", r.PID, f, got, want)
				default:
					known++
				}
			}
			if known == len(r.want) {
				whole++
			}
		}
	}
	s := v.awaitBalance()
	lost := s.Lost() - v.before.Lost()
	v.Logf("%d of %d EXEC are complete, %d events are missing, %d lost %v", whole, len(all), missing, lost, s.Source.Lost)
	if lost < missing {
		v.Errorf("got %d events counted as lost, want at least %d, the missing ones", lost, missing)
	}
	if n := s.Source.Lost[engine.LossDecode]; n > 0 {
		v.Errorf("%d records could not be decoded", n)
	}
	if uint64(whole)+lost < uint64(len(all)) {
		v.Errorf("%d of %d EXEC are complete, but only %d events were lost", whole, len(all), lost)
	}
	if whole < len(all)/4 {
		v.Errorf("%d of %d EXEC are complete: too few to show that records cross the end of the ring", whole, len(all))
	}
}
