package score

import (
	"testing"

	"github.com/quark-linux/quark/fidelity/truth"
)

// many returns n successive processes, and the events of a perfect backend.
func many(b *testing.B, n int) (*Delivered, []*truth.Process) {
	b.Helper()
	w, one := perfect(), perfect().Single
	w.Single, w.Joined = nil, nil
	var all []truth.Record
	for i := range n {
		pid, after := 9+i, uint64(200*i)
		for _, r := range records() {
			r.PID, r.Latest = pid, r.Latest+after
			if r.Earliest != 0 {
				r.Earliest += after
			}
			all = append(all, r)
		}
		for _, s := range one {
			s.Process = s.Process.Clone()
			s.Process.PID, s.Process.Start = uint32(pid), s.Process.Start+after
			if s.Process.Exited {
				s.Process.Task.Exit.Time += after
			}
			s.Time, s.At = s.Time+after, s.At+after
			w.Single = append(w.Single, s)
		}
	}
	processes, err := truth.Assemble(all)
	if err != nil {
		b.Fatal(err)
	}
	return w, processes
}

// BenchmarkCompute measures the time to match an event with ground truth. It must not grow with the
// number of events.
func BenchmarkCompute(b *testing.B) {
	for _, c := range []struct {
		name      string
		processes int
		other     bool
	}{{"quark/1000", 200, false}, {"quark/10000", 2000, false}, {"foreign/1000", 200, true}, {"foreign/10000", 2000, true}} {
		b.Run(c.name, func(b *testing.B) {
			w, processes := many(b, c.processes)
			if c.other {
				w.Foreign = &Tolerance{NoStamps: true, Late: 1000}
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s := Compute(w, processes)
				if s.Seen != s.Truth || s.Truth == 0 {
					b.Fatalf("got %s %q", s, s.Findings)
				}
				n += s.Seen
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
		})
	}
}
