package exitsnoop

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

// Trace begins to trace a process: its exit will be recorded with info.TraceID. The pid is in the
// initial pid namespace, in which the caller must be.
//
// After a nil error the exit will be recorded, or has been. Trace reserves room for the exit. The
// error is ErrBadPid, ErrNoProcess, ErrAlreadyTraced, ErrDuplicateID, ErrFull, ErrNamespace or the
// kernel's; then nothing has changed.
//
// If the process is exiting, Trace waits until it has ended, for at most 2 s.
func (s *Store) Trace(pid uint32, info *TaskInfo) error {
	if info == nil {
		return withPID(pid, errors.New("no TaskInfo given"))
	}
	return withPID(pid, s.trace(pid, *info, nil, 0))
}

// TraceProcess is like Trace, with a random trace id, which it returns. The id is 2^63 or more, so
// that it differs from ids that count from 1.
func (s *Store) TraceProcess(pid uint32) (traceID uint64, err error) {
	return withRandomID(func(id uint64) error { return s.Trace(pid, &TaskInfo{TraceID: id}) })
}

// withRandomID calls trace with a random id, and tries again if that is in use.
func withRandomID(trace func(id uint64) error) (id uint64, err error) {
	const tries = 3
	for range tries {
		var b [8]byte
		rand.Read(b[:]) // never fails
		id = binary.NativeEndian.Uint64(b[:]) | 1<<63
		if err = trace(id); !errors.Is(err, ErrDuplicateID) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	return id, nil
}

// trace traces a process, as a member of a tree unless m is nil. If start is not 0 it must match
// the start time of the process.
func (s *Store) trace(pid uint32, info TaskInfo, m *programsMember, start uint64) error {
	s.whole.RLock()
	defer s.whole.RUnlock()
	p, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer p.close()
	t, err := newTask(p, info)
	switch {
	case err != nil:
		return err
	case start != 0 && start != t.StartMin:
		return ErrNoProcess // the pid was reused
	}
	if err := s.addTask(pid, t, m); err != nil {
		return err
	}
	if err := s.confirm(p, info.TraceID); err != nil {
		return err
	}
	var tree uint64
	if m != nil {
		tree = m.Tree
	}
	s.watchNew(info.TraceID, pid, tree)
	return nil
}

// CanTrace returns the error that [Store.Trace] would return for a pid that cannot be traced. It
// needs no store, so a caller can check before it starts the program.
func CanTrace(pid uint32) error {
	p, err := openProcess(pid)
	if err == nil {
		defer p.close()
		_, err = newTask(p, TaskInfo{})
	}
	return withPID(pid, err)
}

// newTask returns the tracing entry of a live process.
func newTask(p *process, info TaskInfo) (*programsTask, error) {
	if err := inInitialNamespace(); err != nil {
		return nil, err
	}
	var ns PidnsInfo
	from, to, err := p.start()
	if err == nil {
		ns, err = p.namespace()
	}
	// If the process still runs, no later process with its pid was read.
	if p.ended() {
		return nil, ErrNoProcess
	}
	if err != nil {
		return nil, err
	}
	if want := info.PidnsInfo; want != (PidnsInfo{}) && want != ns {
		return nil, fmt.Errorf("%w: the process is in %d (device %d), not in %d (device %d)", ErrNamespace, ns.Ino, ns.Dev, want.Ino, want.Dev)
	}
	// The kernel encodes small device numbers, such as this one, like user space.
	return &programsTask{TraceId: info.TraceID, PidnsDev: ns.Dev, PidnsIno: ns.Ino, StartMin: from, StartEnd: to}, nil
}

// addTask reserves the event and adds the tracing entry. It adds a membership first, if m is not
// nil, so that no fork is missed.
func (s *Store) addTask(pid uint32, t *programsTask, m *programsMember) error {
	e := programsExitEvent{Pid: pid, StoredTime: clock.Monotonic(), State: programsEventStateSTATE_RESERVED}
	if err := s.reserve(t.TraceId, &e); err != nil {
		return err
	}
	var err error
	if m != nil {
		err = s.members.Update(t.TraceId, m, ebpf.UpdateAny)
	}
	if err == nil {
		err = s.tasks.Update(pid, t, ebpf.UpdateNoExist)
	}
	if errors.Is(err, ebpf.ErrKeyExist) && s.markEarlierLost(pid, t) {
		err = s.tasks.Update(pid, t, ebpf.UpdateNoExist)
	}
	if err == nil {
		return nil
	}
	undo := s.forget(t.TraceId)
	switch {
	case errors.Is(err, ebpf.ErrKeyExist):
		err = ErrAlreadyTraced
	case errors.Is(err, unix.E2BIG):
		err = s.mapFull("traced processes", s.tasks)
	}
	return errors.Join(mapKeyError(err, ErrNotTraced), undo)
}

// markEarlierLost marks the trace of an earlier process with the same pid as lost. It reports
// whether there was such a trace.
func (s *Store) markEarlierLost(pid uint32, now *programsTask) bool {
	old, err := s.task(pid)
	if err != nil || old.StartMin < now.StartEnd && now.StartMin < old.StartEnd {
		return false
	}
	return s.markLost(pid, old) == nil
}

// markLost replaces a tracing entry with a lost event.
func (s *Store) markLost(pid uint32, t *programsTask) error {
	e, err := s.event(t.TraceId)
	if err == nil && e.State == programsEventStateSTATE_RESERVED || errors.Is(err, ErrNotTraced) {
		lost := programsExitEvent{Pid: pid, ExitCode: t.Lost, StoredTime: clock.Monotonic(), State: programsEventStateSTATE_LOST}
		if err := s.events.Update(t.TraceId, &lost, ebpf.UpdateAny); err != nil {
			return err
		}
		if t.Lost == 0 {
			if err := s.count(programsCounterCOUNT_UNSEEN); err != nil {
				return err
			}
		}
	}
	if err := s.tasks.Delete(pid); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// exitTimeout limits the wait for a process between the tracepoint and its end, such as one that
// closes files. Trace polls the process every exitPollInterval.
const (
	exitTimeout      = 2 * time.Second
	exitPollInterval = time.Millisecond
)

// confirm returns nil when the exit of a newly traced process is certain to be recorded. Otherwise
// it deletes the entries and returns the reason.
func (s *Store) confirm(p *process, id uint64) error {
	var why error
	for end := time.Now().Add(exitTimeout); ; p.endsWithin(exitPollInterval) {
		sure, failed := p.endWillBeSeen()
		if sure && !p.ended() {
			return nil
		}
		if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_ENDED {
			return nil
		}
		// The program runs before the pidfd becomes readable.
		if p.ended() {
			break
		}
		if failed != nil || time.Now().After(end) {
			why = failed
			break
		}
	}
	// The entry goes first: until it is deleted, the exit may still be recorded.
	s.tasks.Delete(p.pid)
	if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_ENDED {
		return nil
	}
	s.forget(id)
	return cmp.Or(why, ErrNoProcess)
}
