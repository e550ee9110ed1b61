package score

import (
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// What is carried may be less, of one thread not less CPU time, and what is cut whole KiB. That is
// for the proc connector, and nothing may be more, but for pages that the kernel had not added up.
func TestUsed(t *testing.T) {
	const cpu, rss, io = engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO
	least := truth.Used{CPU: 20e6, User: 15e6, System: 5e6, PeakRSS: 4096, IO: &truth.IO{RChar: 3000}}
	most := truth.Used{CPU: 30e6, User: 20e6, System: 10e6, PeakRSS: 8192, IO: &truth.IO{RChar: 3000}}
	type verdict func(*Verdicts) *int
	var (
		right   verdict = func(v *Verdicts) *int { return &v.Right }
		carried verdict = func(v *Verdicts) *int { return &v.Carried }
		cut     verdict = func(v *Verdicts) *int { return &v.Truncated }
		wrong   verdict = func(v *Verdicts) *int { return &v.Wrong }
	)
	for _, c := range []struct {
		name         string
		f            engine.Field
		u            engine.Usage
		carried, cut bool
		threads      bool
		want, others verdict // of the proc connector, of others
	}{
		{name: "as it was", f: cpu, u: engine.Usage{UserTime: 16e6, SystemTime: 6e6}, want: right, others: right},
		{name: "divided in another way", f: cpu, u: engine.Usage{UserTime: 22e6}, want: wrong, others: wrong},
		{name: "divided in another way, carried", f: cpu, u: engine.Usage{UserTime: 22e6}, carried: true, want: carried, others: wrong},
		{name: "less, carried", f: cpu, u: engine.Usage{UserTime: 19e6}, carried: true, want: wrong, others: wrong},
		{name: "less of threads, carried", f: cpu, u: engine.Usage{UserTime: 19e6}, carried: true, threads: true, want: carried, others: wrong},
		{name: "more of threads, carried", f: cpu, u: engine.Usage{UserTime: 31e6}, carried: true, threads: true, want: wrong, others: wrong},
		{name: "as it was", f: rss, u: engine.Usage{PeakRSS: 8192}, want: right, others: right},
		{name: "less", f: rss, u: engine.Usage{PeakRSS: 4096}, want: wrong, others: wrong},
		{name: "less, carried", f: rss, u: engine.Usage{PeakRSS: 1024}, carried: true, want: carried, others: wrong},
		{name: "more", f: rss, u: engine.Usage{PeakRSS: 8192 + rssSlack}, want: right, others: wrong},
		{name: "much more, carried", f: rss, u: engine.Usage{PeakRSS: 8193 + rssSlack}, carried: true, want: wrong, others: wrong},
		{name: "as it was", f: io, u: engine.Usage{RChar: 3000}, want: right, others: right},
		{name: "rounded", f: io, u: engine.Usage{RChar: 2048}, want: wrong, others: wrong},
		{name: "rounded, cut", f: io, u: engine.Usage{RChar: 2048}, cut: true, want: cut, others: wrong},
		{name: "less, cut", f: io, u: engine.Usage{RChar: 2047}, cut: true, want: wrong, others: wrong},
		{name: "more, cut", f: io, u: engine.Usage{RChar: 3001}, cut: true, want: wrong, others: wrong},
	} {
		for backend, verdict := range map[string]verdict{"cnproc": c.want, "ebpf": c.others} {
			p := &engine.Process{Usage: &c.u}
			p.Known = c.f.Set()
			if c.carried {
				p.Carried = c.f.Set()
			}
			if c.cut {
				p.Truncated = c.f.Set()
			}
			var got, want Verdicts
			*verdict(&want) = 1
			j := &judge{Score: new(Score), w: &Witness{Backend: backend}}
			j.used(&got, &Seen{Events: engine.EventExit, Process: p},
				&truth.Event{Life: &truth.Life{Used: &least, OpenThreads: c.threads}, Used: &most}, c.f)
			if got != want {
				t.Errorf("%s of %s, %s: %+v, want %+v", c.f, backend, c.name, got, want)
			}
		}
	}
}

// The I/O of children is not the process's own, and only that of several threads which may have
// waited for children can be unknown.
func TestUsedIO(t *testing.T) {
	const total, own, child = 5000, 1000, 3900
	one, waited := truth.Used{IO: &truth.IO{RChar: total}, LeaderIO: &truth.IO{RChar: own}}, truth.Used{IO: &truth.IO{RChar: total - 50}, Waited: truth.IO{RChar: child}}
	for _, c := range []struct {
		name              string
		threads, children bool
		said              *truth.Used
		unknown           bool
		least, most       uint64 // that are right; most is 0 where unknown is
	}{
		{name: "one thread", least: own, most: own},
		{name: "one thread with children", children: true, least: own, most: own},
		{name: "one thread, unknown", children: true, unknown: true, least: 1},
		{name: "threads", threads: true, least: total, most: total},
		{name: "threads, unknown", threads: true, unknown: true, least: 1},
		{name: "threads with children", threads: true, children: true, least: own, most: total},
		{name: "threads with children, which told", threads: true, children: true, said: &waited, least: total - child - 50, most: total - child},
		{name: "threads with children, unknown", threads: true, children: true, unknown: true},
	} {
		l := &truth.Life{PID: 7, OpenThreads: c.threads, Used: c.said}
		lives := map[uint32][]*truth.Life{7: {l}}
		if c.children {
			lives[8] = []*truth.Life{{PID: 8, Creator: l}}
		}
		for got, want := range map[uint64]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			p := &engine.Process{PID: 7, Usage: &engine.Usage{RChar: got}}
			p.Known = engine.FieldsUsage
			if c.unknown {
				p.Known, want = p.Known&^engine.FieldIO.Set(), c.least == 0
			}
			w := &Witness{Backend: "ebpf", Table: new(engine.CapabilityTable)}
			w.Table.Fields[engine.FieldIO].At = engine.EventExit
			var v Verdicts
			j := &judge{Score: new(Score), w: w, byPID: lives}
			j.used(&v, &Seen{Events: engine.EventExit, Process: p}, &truth.Event{Life: l, Used: &one}, engine.FieldIO)
			if good := v.Right+v.Unknown == 1; good != want || v.Right+v.Unknown+v.Wrong+v.Unexplained != 1 {
				t.Errorf("%s, %d: %+v, want %v", c.name, got, v, want)
			}
		}
	}
}
