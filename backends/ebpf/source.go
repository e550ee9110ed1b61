package ebpf

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/pulse"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Source delivers the events of the programs in the kernel. It implements [engine.Source]. After
// Open it uses only its descriptors and shared memory, so that the process may drop its privileges
// and change its root.
type Source struct {
	shared       source.Options
	environ      *source.Variables
	capabilities engine.CapabilityTable

	maps     map[string]*ebpf.Map
	programs []*ebpf.Program
	first    []*ebpf.Program // the first programs of twins
	alone    []*ebpf.Program // programs of perf events without a twin: a skip loses an event
	links    []link.Link
	events   perfEvents

	snapshot *ebpf.Program // describes existing processes; nil if the snapshot comes from /proc

	buffer    buffer // nil after Close
	control   *control
	counters  *counters
	pulse     *pulse.Pulse // of kprobes; nil without kprobes
	pulseMap  *ebpf.Map
	noKprobes error  // the reason why kprobes are not used
	decode    uint64 // records that could not be decoded
	derived   uint64 // events that were derived from another event
	gaps      gaps
}

// Interval returns the longest time between two calls of Populate that the check of kprobes allows,
// or 0 for no limit.
func (s *Source) Interval() time.Duration { return s.pulse.Interval() }

// Name returns "ebpf".
func (s *Source) Name() string { return "ebpf" }

// Capabilities returns the events and fields of the attached programs.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.capabilities }

// FD returns a descriptor. After Arm(true) it is readable as soon as a record is queued. In any
// case it is readable when a quarter of the ring, or of a CPU's ring, is filled.
func (s *Source) FD() int {
	if s.buffer == nil {
		return -1
	}
	return s.buffer.FD()
}

// Populate moves queued events to the sink. After Close it returns [os.ErrClosed].
func (s *Source) Populate(to engine.Sink) error {
	if s.buffer == nil {
		return os.ErrClosed
	}
	atomic.StoreUint32(s.control.nudged, 0)
	s.findGaps()
	for to.Room() > 0 {
		if s.insertGap(to) {
			continue
		}
		record := s.buffer.next()
		if record == nil {
			break
		}
		ev := to.Reserve()
		if err := decode(ev, record, s.environ); err != nil {
			to.Release(ev)
			s.decode++
			continue
		}
		if ev.Kind == engine.KindExit {
			s.derived += uint64(s.shared.InsertExit(to, ev)) - 1
			continue
		}
		to.Insert(ev)
	}
	s.buffer.release()
	// The engine may deliver events at once, so insert gaps of earlier losses first.
	for s.findGaps(); s.insertGap(to); {
	}
	if err := s.buffer.err(); err != nil {
		return fmt.Errorf("read ring: %w", err)
	}
	return s.counters.err
}

// insertGap inserts the first waiting gap, unless an earlier record is queued. It reports whether
// it did.
func (s *Source) insertGap(to engine.Sink) bool {
	if len(s.gaps.waiting) == 0 { // nearly always true; called before each event
		return false
	}
	gap, ok := s.gaps.due(s.buffer)
	if ok {
		ev := to.Reserve()
		ev.SetGap(gap)
		to.Insert(ev)
	}
	return ok
}

// Arm makes the next event wake the reader if the engine is idle. Otherwise the reader is woken
// only when the ring fills up.
func (s *Source) Arm(idle bool) bool {
	if s.buffer == nil {
		return false
	}
	if !idle {
		return !s.buffer.pending(true)
	}
	s.control.set(s.control.armed, 1)
	if s.buffer.pending(false) || len(s.gaps.waiting) > 0 {
		s.control.set(s.control.armed, 0)
		return false
	}
	return true
}

// Stats returns the sum of the counters of all CPUs. If the kernel skips both twin programs of an
// event, or a program without a twin, the event is counted as LossSkipped. The count may include
// events that would not have been reported: of a thread without the option Threads, an exec that
// did not fail, or new credentials with the same ids.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.buffer == nil {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := s.count()
	st.Lost[engine.LossDecode] = s.decode
	return st, s.counters.err
}

// count returns the counts of the programs and the skips that the kernel counted.
func (s *Source) count() engine.SourceStats {
	// Before 6.1 the kernel does not skip programs of raw tracepoints.
	missed, skipped := countSkips(s.first), countSkips(s.alone)
	st, passed, rescued := s.counters.sum()
	if missed += passed; missed > rescued {
		skipped += missed - rescued
	}
	st.Bound = s.pulse.Missed()
	st.Produced += s.derived + skipped
	st.Lost[engine.LossSkipped] += skipped
	return st
}

// Detach implements [engine.Detacher]. A running program ends within microseconds.
func (s *Source) Detach() {
	s.pulse.Stop()
	s.detach()
}

// detach detaches all programs in parallel, as the kernel waits for each until no CPU runs it.
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
	s.links, s.events = nil, nil
	return errors.Join(errs...)
}

// Close detaches the programs and frees the ring. Queued events are dropped.
func (s *Source) Close() error {
	if s.maps == nil {
		return nil
	}
	errs := []error{s.detach()}
	for _, p := range append(s.programs, s.snapshot) {
		errs = append(errs, p.Close())
	}
	if s.buffer != nil {
		errs = append(errs, s.buffer.close())
	}
	if s.control != nil {
		s.control.unmap()
	}
	if s.counters != nil {
		s.counters.unmap()
	}
	errs = append(errs, s.pulseMap.Close())
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	*s = Source{capabilities: s.capabilities}
	return errors.Join(errs...)
}
