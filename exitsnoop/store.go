package exitsnoop

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

// Store has the traced processes and their exits. Its methods may be called from any goroutine.
// Several processes can use a pinned store at the same time.
type Store struct {
	tasks, events, counters table
	members, treeCounters   table

	closing *closing
	maps    maps    // all of them
	links   links   // of a private store, closed with it
	dir     *pinDir // nil for a private store

	// whole is held for reading by operations that Close must not interrupt: half of an
	// operation would look like a lost exit in pinned maps.
	whole sync.RWMutex

	mu       sync.Mutex
	watchers map[*watcher]bool // of running Wait and Events
	closed   bool
}

// NewStore opens the state that [EnsureRunning] has pinned below a root.
func NewStore(bpffsRoot string) (*Store, error) {
	d := newPinDir(bpffsRoot)
	m, err := d.openMaps()
	if err == nil && len(m) < len(mapNames) {
		err = fmt.Errorf("%w: a map is missing", ErrNotRunning)
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("open the store below %s: %w", bpffsRoot, err)
	}
	s := newStore(m, nil)
	s.dir = d
	return s, nil
}

// NewStoreFromAttach creates a private store with its own program and without pins: tracing ends
// with Close or with the process.
func NewStoreFromAttach() (*Store, error) { return NewStoreFromAttachWith(Options{}) }

// NewStoreFromAttachWith is NewStoreFromAttach with options.
func NewStoreFromAttachWith(o Options) (*Store, error) {
	m := maps{}
	l := links{}
	if err := attach(&o, m, l); err != nil {
		l.close()
		m.close()
		return nil, err
	}
	return newStore(m, l), nil
}

// newStore returns a store, which owns the maps and links.
func newStore(m maps, l links) *Store {
	c := new(closing)
	use := func(name string) table { return table{m[name], c} }
	return &Store{
		tasks: use(programsMapTracingTasks), events: use(programsMapExitedEvents), counters: use(programsMapCounters),
		members: use(programsMapTreeMembers), treeCounters: use(programsMapTreeCounters),
		closing: c, maps: m, links: l, watchers: map[*watcher]bool{},
	}
}

// Close closes the store and ends the tracing of a private one. Any goroutine may call Close. It
// ends running calls: [Store.Events] ends without an error, all others with os.ErrClosed. Later
// calls return os.ErrClosed too. Close waits for a running Trace. A second Close has no effect.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for w := range s.watchers {
		w.poll.Close()
	}
	s.mu.Unlock()
	s.whole.Lock() // without mu, which its holders may need
	s.closing.begin()
	s.whole.Unlock()
	err := s.links.close()
	s.maps.close()
	return err
}

// GetTracingTask returns the TaskInfo with which a process is traced, or ErrNotTraced.
func (s *Store) GetTracingTask(pid uint32) (*TaskInfo, error) {
	t, err := s.task(pid)
	if err != nil {
		return nil, withPID(pid, err)
	}
	return t.info(), nil
}

func (t *programsTask) info() *TaskInfo {
	return &TaskInfo{TraceID: t.TraceId, PidnsInfo: PidnsInfo{Dev: t.PidnsDev, Ino: t.PidnsIno}}
}

// DeleteTracingTask ends the tracing of a process, or returns ErrNotTraced. If no exit was
// recorded, the trace id can be used again.
func (s *Store) DeleteTracingTask(pid uint32) error {
	s.whole.RLock()
	defer s.whole.RUnlock()
	t, err := s.task(pid)
	if err == nil {
		err = s.drop(pid, t.TraceId)
	}
	return withPID(pid, err)
}

// drop deletes a tracing entry and the event reserved for it.
func (s *Store) drop(pid uint32, id uint64) error {
	if err := mapKeyError(s.tasks.Delete(pid), ErrNotTraced); err != nil {
		return err
	}
	if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_RESERVED {
		return ignoreMissing(s.forget(id))
	}
	return nil
}

// forget deletes the event of a trace, and its place in a tree.
func (s *Store) forget(id uint64) error {
	err := s.events.Delete(id)
	s.members.Delete(id) // most traces have none
	return mapKeyError(err, ErrNotTraced)
}

// GetExitedEvent returns the status of a trace that has ended. It does not wait, and keeps the
// event. The error is ErrNotEnded, ErrNotTraced or ErrLost.
func (s *Store) GetExitedEvent(traceEventID uint64) (*ExitStatus, error) {
	e, err := s.event(traceEventID)
	if err != nil {
		return nil, withTraceID(traceEventID, err)
	}
	st, err := e.status()
	return st, withTraceID(traceEventID, err)
}

func (e *programsExitEvent) status() (*ExitStatus, error) {
	switch e.State {
	case programsEventStateSTATE_ENDED:
		return &ExitStatus{Pid: e.Pid, ExitCode: e.ExitCode, StartBoottime: e.StartBoottime, ExittedTime: e.ExitedTime}, nil
	case programsEventStateSTATE_LOST:
		if e.ExitCode < 0 { // the error of the program's write to the map
			return nil, fmt.Errorf("%w: %w", ErrLost, unix.Errno(-e.ExitCode))
		}
		return nil, ErrLost
	}
	return nil, ErrNotEnded
}

// DeleteExitedEvent deletes the event of a trace that has ended or was lost. The error is
// ErrNotEnded or ErrNotTraced.
func (s *Store) DeleteExitedEvent(traceEventID uint64) error {
	s.whole.RLock()
	defer s.whole.RUnlock()
	e, err := s.event(traceEventID)
	switch {
	case err != nil:
	case e.State == programsEventStateSTATE_RESERVED:
		err = ErrNotEnded
	default:
		err = s.forget(traceEventID)
	}
	if err != nil {
		return withTraceID(traceEventID, err)
	}
	s.deleteTraced(e.Pid, traceEventID) // it exists if the program could not record the exit
	return nil
}

// deleteTraced deletes the tracing entry of a pid if it is of this trace.
func (s *Store) deleteTraced(pid uint32, id uint64) {
	if t, err := s.task(pid); err == nil && t.TraceId == id {
		s.tasks.Delete(pid)
	}
}

// ExitedEventFromWaitStatus records the status of a process that the caller has waited for. The
// process is traced with this id, or untraced. If the id already has a status, the error is
// ErrDuplicateID.
func (s *Store) ExitedEventFromWaitStatus(traceEventID uint64, pid, status uint32) error {
	s.whole.RLock()
	defer s.whole.RUnlock()
	e := programsExitEvent{Pid: pid, ExitCode: int32(status), StoredTime: clock.Monotonic(), State: programsEventStateSTATE_ENDED}
	old, err := s.event(traceEventID)
	switch {
	case errors.Is(err, ErrNotTraced):
		err = s.reserve(traceEventID, &e)
	case err == nil && (old.State == programsEventStateSTATE_ENDED || old.Pid != pid):
		err = ErrDuplicateID
	case err == nil:
		if err = s.events.Update(traceEventID, &e, ebpf.UpdateExist); err == nil {
			s.deleteTraced(pid, traceEventID)
		}
	}
	return withTraceID(traceEventID, err)
}

// reserve adds an event. It is an error if the id has one.
func (s *Store) reserve(id uint64, e *programsExitEvent) error {
	err := s.events.Update(id, e, ebpf.UpdateNoExist)
	switch {
	case errors.Is(err, ebpf.ErrKeyExist):
		return ErrDuplicateID
	case errors.Is(err, unix.E2BIG):
		return s.mapFull("exits", s.events)
	}
	return mapKeyError(err, ErrNotTraced)
}

// mapFull returns ErrFull and increments Stats.Refused.
func (s *Store) mapFull(what string, m table) error {
	err := fmt.Errorf("%w (the map of %s has %d entries)", ErrFull, what, m.MaxEntries())
	return errors.Join(err, s.count(programsCounterCOUNT_REFUSED))
}

// count increments a counter that only user space uses: the first CPU's value, under a lock.
func (s *Store) count(index programsCounter) (err error) {
	unlock := s.mu.Unlock
	if s.dir == nil {
		s.mu.Lock()
	} else if unlock, err = s.dir.lock(defaultLockWait); err != nil {
		return err
	}
	defer unlock()
	var n []uint64
	if s.counters.Lookup(index, &n) == nil && len(n) > 0 {
		n[0]++
		s.counters.Update(index, n, ebpf.UpdateAny)
	}
	return nil
}

func (s *Store) task(pid uint32) (*programsTask, error) {
	t := new(programsTask)
	return t, mapKeyError(s.tasks.Lookup(pid, t), ErrNotTraced)
}

func (s *Store) event(id uint64) (*programsExitEvent, error) {
	e := new(programsExitEvent)
	return e, mapKeyError(s.events.Lookup(id, e), ErrNotTraced)
}

// mapKeyError replaces the error for a missing key by missing.
func mapKeyError(err, missing error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return missing
	}
	return err
}

// counted returns a counter: the sum over all CPUs.
func counted(counters table, index uint32) (sum uint64, err error) {
	var n []uint64
	if err := counters.Lookup(index, &n); err != nil {
		return 0, fmt.Errorf("read counters: %w", err)
	}
	for _, v := range n {
		sum += v
	}
	return sum, nil
}

// Stats returns the counters.
func (s *Store) Stats() (st Stats, err error) {
	for to, in := range map[*uint64]struct {
		counters table
		index    uint32
	}{
		&st.Recorded:       {s.counters, uint32(programsCounterCOUNT_RECORDED)},
		&st.Lost:           {s.counters, uint32(programsCounterCOUNT_LOST)},
		&st.WrongNamespace: {s.counters, uint32(programsCounterCOUNT_WRONG_NAMESPACE)},
		&st.WrongStart:     {s.counters, uint32(programsCounterCOUNT_WRONG_START)},
		&st.Refused:        {s.counters, uint32(programsCounterCOUNT_REFUSED)},
		&st.Unseen:         {s.counters, uint32(programsCounterCOUNT_UNSEEN)},
		&st.Descendants:    {s.treeCounters, uint32(programsTreeCounterCOUNT_DESCENDANTS)},
		&st.Untraced:       {s.treeCounters, uint32(programsTreeCounterCOUNT_UNTRACED)},
	} {
		if *to, err = counted(in.counters, in.index); err != nil {
			return st, err
		}
	}
	st.MaxTracing, st.MaxEvents = int(s.tasks.MaxEntries()), int(s.events.MaxEntries())
	tasks, err := s.allTasks()
	if err != nil {
		return st, err
	}
	events, err := s.allEvents()
	st.Tracing = len(tasks)
	for _, e := range events {
		if e.State != programsEventStateSTATE_RESERVED {
			st.Uncollected++
		}
	}
	return st, err
}

// ignoreMissing returns nil for ErrNotTraced, and other errors as they are.
func ignoreMissing(err error) error {
	if errors.Is(err, ErrNotTraced) {
		return nil
	}
	return err
}
