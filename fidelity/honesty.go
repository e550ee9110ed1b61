package fidelity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Honesty compares the events that a backend lost with those it reported as lost. The backend
// has tiny buffers, and a second queue with normal buffers records all events.
type Honesty struct {
	Backend string `json:"backend"`
	Truth   int    `json:"truth"`   // events of the scenario
	Missing int    `json:"missing"` // of these, not delivered
	// Absent counts the events of all processes of the host, stamped during the scenario,
	// that only the normal queue delivered. AtMost counts the same from before the tiny
	// queue was opened until after it was closed. On an idle host they are equal.
	Absent   int    `json:"absent"`
	AtMost   int    `json:"at_most"`
	Reported uint64 `json:"reported"` // events that the backend reported as lost
	Cause    string `json:"cause"`
}

// Exact reports whether events were lost and the number reported as lost is between Absent and
// AtMost.
func (h *Honesty) Exact() bool {
	n := int(h.Reported)
	return h.Missing > 0 && h.Missing <= h.Absent && h.Absent <= n && n <= h.AtMost
}

// honestyProcesses is the number of processes, which make two events each. On each of many CPUs
// these are more than a one-page ring or the smallest socket buffer can hold.
const honestyProcesses = 300

// Honest forces a loss on a backend by giving it tiny buffers that are not read in time.
func Honest(name string, patience time.Duration) (*Honesty, error) {
	list, err := scenario.CPUs()
	if err != nil {
		return nil, err
	}
	// Threads are included because their events can be lost too.
	opts := quark.Options{HoldTime: 100 * time.Millisecond, MinAgg: true, Threads: true}
	all, err := openQueue(name, opts, false)
	if err != nil {
		return nil, err
	}
	opts.EBPF, opts.KProbe, opts.CNProc = ebpf.Options{RingSize: 1}, kprobe.Options{RingSize: 1}, cnproc.Options{ReceiveBuffer: 1}
	some, err := openQueue(name, opts, false)
	if err != nil {
		_, err2 := all.Close()
		return nil, errors.Join(err, err2)
	}
	all.Start()
	from := truth.Clock()
	var records []truth.Record
	for i := range honestyProcesses {
		_, r, err := scenario.Brief(list[i%len(list)])
		if err != nil {
			_, err2 := all.Close()
			_, err3 := some.Close()
			return nil, errors.Join(err, err2, err3)
		}
		records = append(records, r...)
	}
	// Nothing has been read from the tiny queue before this point.
	some.Start()
	to, err := witness.Settle([]*witness.Listener{all, some}, patience)
	stats, err1 := some.Close()
	if err == nil && err1 == nil {
		// Everything that happened while tiny was open has then reached full.
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
	s := score.Lives(&score.Witness{Table: some.Queue.Capabilities(), Opened: from, Single: some.Seen()}, lives)
	h.Truth, h.Missing = s.Truth, s.Truth-s.Seen
	return h, nil
}

// causes formats the numbers of lost events by cause.
func causes(s *quark.Stats) string {
	var list []string
	for l, n := range s.Source.Lost {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", engine.Loss(l), n))
		}
	}
	return strings.Join(list, " ")
}

// countRaw counts the source's events stamped after from and up to to. The last thread of a process
// may appear twice, as its own exit and as the exit of its group; that is one event of the source.
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
