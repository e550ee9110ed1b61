package cnproc

import (
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// left is a view without any trace of a process.
type left struct{ oneThread }

func (left) Tasks(uint32) []uint32 { return nil }
func (left) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{}, 0, procfs.ErrVanished
}

// A process with threads ends while the source looks at /proc. Its threads' messages come after it
// has left /proc. One of them can be the last, which ends the process; if not, the last one does.
// No end is lost.
func TestEndBehindThoseOfThreads(t *testing.T) {
	const at = 5 * maxStraggle
	for _, c := range []struct {
		name string
		last func(*tracker)
		want []string
	}{
		{"the leader's follows", func(tr *tracker) {
			tr.take(&message{what: Exit, pid: 10, tid: 10, status: 5 << 8, time: at + 2, ppid: 1, exitSignal: 17})
		}, []string{"EXIT"}},
		{"no other follows", func(*tracker) {}, []string{"EXIT"}},
		{"the number is another's", func(tr *tracker) {
			tr.take(&message{what: Fork, pid: 10, tid: 10, ppid: 1, parentTID: 1, time: at + 2})
			tr.take(&message{what: Exit, pid: 10, tid: 10, status: 5 << 8, time: at + 3, ppid: 1, exitSignal: 17})
		}, []string{"EXIT", "FORK", "EXIT"}},
		{"messages are lost", func(tr *tracker) {
			tr.lose(engine.Gap{Cause: engine.LossSocketFull, CPU: engine.AllCPUs, From: at + 2, To: at + 3, Count: 4}, false)
		}, []string{"EXIT", "GAP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			now := uint64(at)
			clock := &bootClock{test: func() uint64 { now++; return now }}
			tr := newTracker(left{}, clock, &loss{clock: clock}, true, func(f *fact) {
				if !f.thread {
					got = append(got, f.kind.String())
				}
			})
			tr.learn()
			tr.take(&message{what: Exit, pid: 10, tid: 11, status: 5 << 8, time: at, exitSignal: -1})
			c.last(tr)
			if void := tr.loss.void; c.want[0] == "EXIT" && void != 0 {
				t.Errorf("%d ends are counted as lost", void)
			}
			if tr.settled(now + maxStraggle); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
