package fidelity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Honesty compares what a backend with hardly any room lost with what it says that
// it lost. A second queue of the same backend, with all room, tells what there was.
type Honesty struct {
	Backend string `json:"backend"`
	Truth   int    `json:"truth"`   // events of the scenario
	Missing int    `json:"missing"` // of these, not delivered
	// Absent are the events that the first queue has of the time of the scenario, the
	// host's others included, and this one has not. AtMost is the same of all the time
	// that this one was open, and a little more. On an idle host they are equal.
	Absent   int    `json:"absent"`
	AtMost   int    `json:"at_most"`
	Reported uint64 `json:"reported"` // as lost, by the backend
	Cause    string `json:"cause"`
}

// Exact reports whether something was lost and all of it was reported, and no more
// than there was.
func (h *Honesty) Exact() bool {
	n := int(h.Reported)
	return h.Missing > 0 && h.Missing <= h.Absent && h.Absent <= n && n <= h.AtMost
}

// honestyProcesses make two events each: more than a page of ring or the smallest
// socket buffer can hold, on each of many CPUs.
const honestyProcesses = 300

// Honest forces a loss on a backend.
func Honest(name string, patience time.Duration) (*Honesty, error) {
	set, err := backends.Parse(name)
	if err != nil {
		return nil, err
	}
	list, err := scenario.CPUs()
	if err != nil {
		return nil, err
	}
	// Threads, because they too can be lost.
	opts := quark.Options{Backends: set, Strict: true, HoldTime: 100 * time.Millisecond, MinAgg: true, Threads: true}
	full, err := quark.Open(opts)
	if err != nil {
		return nil, witness.Reason(err)
	}
	small := opts
	small.EBPF, small.KProbe, small.CNProc = ebpf.Options{RingSize: 1}, kprobe.Options{RingSize: 1}, cnproc.Options{ReceiveBuffer: 1}
	tiny, err := quark.Open(small)
	if err != nil {
		return nil, errors.Join(witness.Reason(err), full.Close())
	}
	all := witness.Listen(full, opts.HoldTime, false)
	all.Start()
	from := truth.Clock()
	var records []truth.Record
	for i := range honestyProcesses {
		_, r, err := scenario.Brief(list[i%len(list)])
		if err != nil {
			_, err2 := all.Close()
			return nil, errors.Join(err, err2, tiny.Close())
		}
		records = append(records, r...)
	}
	// Nothing was read from tiny until here.
	some := witness.Listen(tiny, opts.HoldTime, false)
	some.Start()
	to, err := witness.Settle([]*witness.Listener{all, some}, patience)
	stats, err1 := some.Close()
	if err == nil && err1 == nil {
		// Whatever happened while the second was open has come to the first then.
		_, err = witness.Settle([]*witness.Listener{all}, patience)
	}
	whole, err2 := all.Close()
	if err = errors.Join(err, err1, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lives, err := truth.Assemble(records)
	if err != nil {
		return nil, err
	}
	h := &Honesty{Backend: name, Reported: stats.Lost(), Absent: countRaw(all.Seen(), from, to) - countRaw(some.Seen(), from, to)}
	h.AtMost = int(whole.Insertions) - int(stats.Insertions)
	h.Cause = causes(&stats)
	s := score.Lives(&score.Witness{Table: tiny.Capabilities(), Opened: from, Single: some.Seen()}, lives)
	h.Truth, h.Missing = s.Truth, s.Truth-s.Seen
	return h, nil
}

// causes names why the source lost events.
func causes(s *quark.Stats) string {
	var list []string
	for l, n := range s.Source.Lost {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", engine.Loss(l), n))
		}
	}
	return strings.Join(list, " ")
}

// countRaw counts what the source made of the events stamped after from and up to
// to. The last thread of a process may make two of one: its own end, and the group's.
func countRaw(seen []score.Seen, from, to uint64) (n int) {
	type key struct {
		pid  uint32
		time uint64
	}
	ends := make(map[key]bool)
	for _, s := range seen {
		if s.Time <= from || s.Time > to {
			continue
		}
		if s.Events == engine.EventExit {
			if k := (key{s.Process.PID, s.Time}); !ends[k] {
				ends[k] = true
				n++
			}
			continue
		}
		n += len(s.Events.Names(nil))
	}
	return n
}
