package engine_test

import (
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// Namespaces are cached only if the source does not report all their changes. A changed one that
// the event lacks is unknown.
func TestNSChange(t *testing.T) {
	for _, c := range []struct {
		kind   engine.Capability
		cached engine.Fields
	}{
		{engine.Capability{Origin: engine.OriginKernel}, 0},
		{engine.Capability{Origin: engine.OriginKernel, Omits: engine.OmitUserNS}, engine.FieldUserNS.Set()},
		{engine.Capability{Origin: engine.OriginKernel, Partial: engine.EventNSChange}, engine.FieldsNS},
		{engine.Capability{}, engine.FieldsNS},
	} {
		r := &rig{src: new(enginetest.Source), clock: enginetest.NewClock()}
		src := partial{r.src, new(engine.CapabilityTable)}
		for _, k := range []engine.Kind{fork, exec, ids} {
			src.table.Kinds[k].Origin = engine.OriginKernel
		}
		src.table.Kinds[engine.KindNSChange] = c.kind
		var err error
		if r.Engine, err = engine.New(src, r.clock.Engine(), engine.Options{}); err != nil {
			t.Fatal(err)
		}
		r.src.Push(withFields(exec, 1, 0, allButExit))
		r.onlyEvent(t)
		change := withFields(engine.KindNSChange, 1, 10, engine.FieldMntNS.Set())
		change.Task.NS.Mnt = 8
		change.NSChange = engine.NSChange{Changed: engine.ChangedMnt | engine.ChangedNet | engine.ChangedPID, NewPID: 9, Old: engine.Namespaces{Mnt: 5, Net: 6, PID: 7}}
		r.src.Push(change)
		ev := r.onlyEvent(t)
		json, text := string(ev.AppendJSON(nil, wall, "x")), string(ev.AppendDump(nil))
		for _, part := range []string{`"ns_change":["mnt","net","pid_for_children"],"ns_change_old_mnt":5,"ns_change_old_net":6,"ns_change_old_pid_for_children":7,"ns_change_new_pid_for_children":9`, `"mnt_ns":8`} {
			if !strings.Contains(json, part) {
				t.Errorf("got %s, want %s", json, part)
			}
		}
		if part := "NSCH\tns_change=mnt,net,pid_for_children ns_change_old_mnt=5"; !strings.Contains(text, part) {
			t.Errorf("got %s, want %s", text, part)
		}
		r.src.Push(raw(engine.KindPtrace, 1, 20))
		p := r.onlyEvent(t).Process
		if want := c.cached &^ engine.FieldNetNS.Set(); p.Cached&engine.FieldsNS != want || p.Known.Has(engine.FieldNetNS) || p.NS.Mnt != 8 {
			t.Errorf("%+v: got mount namespace %d, known %v, cached %v, want %v", c.kind, p.NS.Mnt, p.Known, p.Cached&engine.FieldsNS, want)
		}
	}
}
