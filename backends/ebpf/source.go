package ebpf

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// Source delivers what the programs in the kernel report. It implements
// [engine.Source]. After Open it uses only its descriptors and shared memory,
// so that privileges may be dropped and the root changed.
type Source struct {
	capabilities engine.CapabilityTable

	maps     map[string]*ebpf.Map
	programs []*ebpf.Program
	first    []*ebpf.Program // those with a twin
	links    []link.Link
	events   perfEvents

	ring     *ring
	control  *control
	counters *counters
	decode   uint64 // records that made no sense
	before   earlier
	gaps     gaps
}

// Name returns "ebpf".
func (s *Source) Name() string { return "ebpf" }

// Capabilities says which events and fields the attached programs bring.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.capabilities }

// FD is the ring's descriptor. It polls readable while anything is queued, and
// becomes so by itself when the ring is filled to a quarter, armed or not.
func (s *Source) FD() int {
	if s.ring == nil {
		return -1
	}
	return s.maps[programsMapRing].FD()
}

// Populate moves queued events to the sink. After Close it returns [os.ErrClosed].
func (s *Source) Populate(to engine.Sink) error {
	if s.ring == nil {
		return os.ErrClosed
	}
	atomic.StoreUint32(s.control.nudged, 0)
	s.reportGaps(to)
	for to.Room() > 0 {
		record := s.ring.next()
		if record == nil {
			break
		}
		ev := to.Reserve()
		if err := decode(ev, record); err != nil {
			to.Release(ev)
			s.decode++
			continue
		}
		to.Insert(ev)
	}
	s.ring.release()
	return nil
}

// Arm asks for a wake-up with the next event if the reader is idle. Else only a
// ring that fills up wakes it.
func (s *Source) Arm(idle bool) bool {
	if s.ring == nil {
		return false
	}
	if !idle {
		return true
	}
	atomic.StoreUint32(s.control.armed, 1)
	if s.ring.pending() {
		atomic.StoreUint32(s.control.armed, 0)
		return false
	}
	return true
}

// Stats sums the counters of all CPUs. Events that the kernel skipped because
// both programs for them were preempted count as lost by LossSkipped;
// whether they were of a thread that nobody asked for can't be told.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.ring == nil {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := s.before.deduct(s.count())
	st.Lost[engine.LossDecode] = s.decode
	return st, nil
}

// count is what the programs counted.
func (s *Source) count() engine.SourceStats {
	var missed uint64
	for _, p := range s.first {
		// Before 5.12 the kernel does not tell, before 6.0 it does not tell
		// who has no privileges, and before 6.1 it misses none.
		if st, err := p.Stats(); err == nil {
			missed += st.RecursionMisses
		}
	}
	st, passed, rescued := s.counters.sum()
	if missed += passed; missed > rescued {
		st.Produced += missed - rescued
		st.Lost[engine.LossSkipped] += missed - rescued
	}
	return st
}

// detach detaches all programs at once: for each the kernel waits until no CPU may
// run it any more, mostly not while it holds a lock.
func (s *Source) detach() error {
	errs := make([]error, len(s.links)+len(s.events))
	var all sync.WaitGroup
	for i, l := range s.links {
		all.Go(func() { errs[i] = l.Close() })
	}
	for i, fd := range s.events {
		all.Go(func() { errs[len(s.links)+i] = unix.Close(fd) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close detaches the programs and frees the ring; what is queued in it is gone.
func (s *Source) Close() error {
	if s.maps == nil {
		return nil
	}
	errs := []error{s.detach()}
	for _, p := range s.programs {
		errs = append(errs, p.Close())
	}
	if s.ring != nil {
		s.ring.unmap()
	}
	if s.control != nil {
		s.control.unmap()
	}
	if s.counters != nil {
		s.counters.unmap()
	}
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	*s = Source{capabilities: s.capabilities}
	return errors.Join(errs...)
}
