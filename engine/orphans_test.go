package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// A process that ends gives its running children to the reaper, each with a REPARENT after its EXIT
// and in order of pid. A child that ended before has none.
func TestReparent(t *testing.T) {
	child := func(pid uint32, at uint64) enginetest.Raw {
		r := raw(fork, pid, at)
		r.Creator, r.Task.PPID, r.Task.Known = 1, 1, engine.FieldPPID.Set()
		return r
	}
	for reaper, want := range map[uint32]string{9: "ppid=9", engine.UnknownReaper: "ppid=?"} {
		r := newRig(t, engine.Options{Matrix: new(engine.Matrix)})
		end := exited(raw(exit, 1, 40), 0)
		end.Creator = reaper
		r.src.Push(raw(fork, 1, 0), child(4, 10), child(3, 15), child(2, 20), exited(raw(exit, 2, 30), 0), end, raw(comm, 3, 50), child(5, 60))
		var got []string
		r.clock.Advance(2 * time.Second)
		for {
			ev, err := r.Get()
			if errors.Is(err, engine.ErrNothing) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.Events.String())
			if ev.Events != engine.EventReparent {
				continue
			}
			text := string(ev.AppendDump(nil))
			if ev.OldPPID != 1 || !strings.Contains(text, "old_ppid=1\n") || !strings.Contains(text, want) || ev.Process.Cached.Has(engine.FieldPPID) {
				t.Errorf("got old parent %d in\n%s", ev.OldPPID, text)
			}
			if js := string(ev.AppendJSON(nil, r.Clock(), "")); !strings.Contains(js, `"old_ppid":1`) {
				t.Error(js)
			}
		}
		if all := strings.Join(got, " "); all != "FORK FORK FORK FORK EXIT EXIT REPARENT REPARENT SETPROCTITLE FORK" {
			t.Error(all)
		}
	}
}
