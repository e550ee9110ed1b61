package score

import (
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// The usage of an EXIT is at least the usage that the process recorded itself, and at most the
// usage that its parent got.
func TestUsed(t *testing.T) {
	const cpu, rss, io = engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO
	least := truth.Used{CPU: 20e6, User: 15e6, System: 5e6, PeakRSS: 4096, IO: &truth.IO{RChar: 3000}}
	most := truth.Used{CPU: 30e6, User: 20e6, System: 10e6, PeakRSS: 8192, IO: &truth.IO{RChar: 3000}}
	for _, c := range []struct {
		name  string
		f     engine.Field
		u     engine.Usage
		right bool
	}{
		{name: "as it was", f: cpu, u: engine.Usage{UserTime: 16e6, SystemTime: 6e6}, right: true},
		{name: "divided in another way", f: cpu, u: engine.Usage{UserTime: 22e6}},
		{name: "less", f: cpu, u: engine.Usage{UserTime: 15e6, SystemTime: 3e6}},
		{name: "more", f: cpu, u: engine.Usage{UserTime: 26e6, SystemTime: 5e6}},
		{name: "as it was", f: rss, u: engine.Usage{PeakRSS: 8192}, right: true},
		{name: "less", f: rss, u: engine.Usage{PeakRSS: 4096}},
		{name: "more", f: rss, u: engine.Usage{PeakRSS: 8193}},
		{name: "as it was", f: io, u: engine.Usage{RChar: 3000}, right: true},
		{name: "less", f: io, u: engine.Usage{RChar: 2048}},
		{name: "more", f: io, u: engine.Usage{RChar: 3001}},
	} {
		p := &engine.Process{Usage: c.u}
		p.Known = c.f.Set()
		want := Counts{Right: 1}
		if !c.right {
			want = Counts{Wrong: 1}
		}
		var got Counts
		j := &scorer{Score: new(Score), w: new(Delivered)}
		j.scoreUsed(&got, &Seen{Events: engine.EventExit, Process: p}, &truth.Event{Process: &truth.Process{Used: &least}, Used: &most}, c.f)
		if got.Wrong = min(got.Wrong, 1); got != want {
			t.Errorf("%s, %s: got %+v, want %+v", c.f, c.name, got, want)
		}
	}
}

// The I/O of children does not count for the process. The process's own I/O is unknown only for
// processes with several threads that may have waited for children.
func TestUsedIO(t *testing.T) {
	const total, own, child = 5000, 1000, 3900
	one, waited := truth.Used{IO: &truth.IO{RChar: total}, LeaderIO: &truth.IO{RChar: own}}, truth.Used{IO: &truth.IO{RChar: total - 50}, Waited: truth.IO{RChar: child}}
	for _, c := range []struct {
		name              string
		threads, children bool
		said              *truth.Used
		unknown           bool
		least, most       uint64 // range of right values; most is 0 if unknown is right
	}{
		{name: "one thread", least: own, most: own},
		{name: "one thread with children", children: true, least: own, most: own},
		{name: "one thread, unknown", children: true, unknown: true, least: 1},
		{name: "threads", threads: true, least: total, most: total},
		{name: "threads, unknown", threads: true, unknown: true, least: 1},
		{name: "threads with children", threads: true, children: true, least: own, most: total},
		{name: "threads with reported children", threads: true, children: true, said: &waited, least: total - child - 50, most: total - child},
		{name: "threads with children, unknown", threads: true, children: true, unknown: true},
	} {
		l := &truth.Process{PID: 7, OpenThreads: c.threads, Used: c.said}
		processes := map[uint32][]*truth.Process{7: {l}}
		if c.children {
			processes[8] = []*truth.Process{{PID: 8, Creator: l}}
		}
		for got, want := range map[uint64]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			p := &engine.Process{PID: 7, Usage: engine.Usage{RChar: got}}
			p.Known = engine.FieldsUsage
			if c.unknown {
				p.Known, want = p.Known&^engine.FieldIO.Set(), c.least == 0
			}
			w := &Delivered{Backend: "x", Table: new(engine.CapabilityTable)}
			w.Table.Fields[engine.FieldIO].At = engine.EventExit
			var v Counts
			j := &scorer{Score: new(Score), w: w, byPID: processes}
			j.scoreUsed(&v, &Seen{Events: engine.EventExit, Process: p}, &truth.Event{Process: l, Used: &one}, engine.FieldIO)
			if good := v.Right+v.Unknown == 1; good != want || v.Right+v.Unknown+v.Wrong+v.Unexplained != 1 {
				t.Errorf("%s, %d: got %+v, want %v", c.name, got, v, want)
			}
		}
	}
}
