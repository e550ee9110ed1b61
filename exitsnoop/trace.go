package exitsnoop

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Trace has the end of process pid recorded under info.TraceID. The pid is of
// the initial pid namespace, which the caller must be in.
//
// When it returns nil the end will be recorded, or has been. Room for it is made
// here, so that it cannot be lost for lack of room later. The error is one of
// ErrBadPid, ErrNoProcess, ErrAlreadyTraced, ErrDuplicateID, ErrFull, ErrNamespace or
// one of the kernel's, and nothing is left behind then.
//
// A process that is about to end makes Trace wait until it has, at most 2 s.
func (s *Store) Trace(pid uint32, info *TaskInfo) error {
	if info == nil {
		return tracing(pid, errors.New("no TaskInfo given"))
	}
	if err := s.trace(pid, *info); err != nil {
		return tracing(pid, err)
	}
	return nil
}

// TraceProcess is Trace with a trace id that it chooses and returns. Its ids are
// at random, 2^63 or more, to be out of the way of ids that count from 1.
func (s *Store) TraceProcess(pid uint32) (traceID uint64, err error) {
	const tries = 3
	for range tries {
		var b [8]byte
		rand.Read(b[:]) // never fails
		traceID = binary.NativeEndian.Uint64(b[:]) | 1<<63
		if err = s.Trace(pid, &TaskInfo{TraceID: traceID}); !errors.Is(err, ErrDuplicateID) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	return traceID, nil
}

func (s *Store) trace(pid uint32, info TaskInfo) error {
	p, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer p.close()
	t, err := s.describe(p, info)
	if err != nil {
		return err
	}
	if err := s.insert(pid, t); err != nil {
		return err
	}
	if err := s.settle(p, info.TraceID); err != nil {
		return err
	}
	s.watch(p, info.TraceID)
	return nil
}

// describe makes the tracing entry of a process that is alive.
func (s *Store) describe(p *process, info TaskInfo) (*programsTask, error) {
	if err := inInitialNamespace(); err != nil {
		return nil, err
	}
	from, to, err1 := p.start(s.clock)
	ns, err2 := p.namespace()
	// If it lives now, what was read was of it.
	if p.ended() {
		return nil, ErrNoProcess
	}
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if want := info.PidnsInfo; want != (PidnsInfo{}) && want != ns {
		return nil, fmt.Errorf("%w: the process lives in %d (device %d), not in %d (device %d)", ErrNamespace, ns.Ino, ns.Dev, want.Ino, want.Dev)
	}
	return &programsTask{TraceId: info.TraceID, PidnsDev: kernelDev(ns.Dev), PidnsIno: ns.Ino, StartMin: from, StartEnd: to}, nil
}

// insert makes room for the exit and puts the tracing entry in.
func (s *Store) insert(pid uint32, t *programsTask) error {
	e := programsExitEvent{Pid: pid, StoredTime: monotonic(), State: programsEventStateSTATE_RESERVED}
	if err := s.reserve(t.TraceId, &e); err != nil {
		return err
	}
	err := s.putTask(pid, t)
	if errors.Is(err, ebpf.ErrKeyExist) && s.bury(pid, t) {
		err = s.putTask(pid, t)
	}
	if err == nil {
		return nil
	}
	undo := s.events.Delete(t.TraceId)
	switch {
	case errors.Is(err, ebpf.ErrKeyExist):
		err = ErrAlreadyTraced
	case errors.Is(err, unix.E2BIG):
		err = s.refuse("traced processes", s.tasks)
	}
	return errors.Join(known(err, ErrNotTraced), undo)
}

// bury ends the tracing of an earlier process with the same pid, whose end was
// not recorded, and reports whether there was one.
func (s *Store) bury(pid uint32, now *programsTask) bool {
	old, err := s.task(pid)
	if err != nil || old.StartMin < now.StartEnd && now.StartMin < old.StartEnd {
		return false
	}
	return s.markLost(pid, old) == nil
}

// markLost turns a tracing entry into an event that says that nobody knows.
func (s *Store) markLost(pid uint32, t *programsTask) error {
	e, err := s.event(t.TraceId)
	if err == nil && e.State == programsEventStateSTATE_RESERVED || errors.Is(err, ErrNotTraced) {
		lost := programsExitEvent{Pid: pid, ExitCode: t.Lost, StoredTime: monotonic(), State: programsEventStateSTATE_LOST}
		if err := s.events.Update(t.TraceId, &lost, ebpf.UpdateAny); err != nil {
			return err
		}
		if t.Lost == 0 {
			if err := s.count(programsCounterCOUNT_UNSEEN); err != nil {
				return err
			}
		}
	}
	if err := s.deleteTask(pid); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// How long a process may take between the tracepoint and its end before Trace
// gives it up, and how often that is looked at. Files are closed in that time.
const (
	settleFor  = 2 * time.Second
	settleStep = time.Millisecond
)

// settle returns nil when it is certain that the end of a process that was just
// put in is, or will be, recorded. Otherwise it takes the entries out.
func (s *Store) settle(p *process, id uint64) error {
	var gone error
	for end := time.Now().Add(settleFor); ; p.endsWithin(settleStep) {
		sure, failed := p.passes()
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
			gone = failed
			break
		}
	}
	// In this order: what is recorded until the entry is gone counts.
	s.deleteTask(p.pid)
	if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_ENDED {
		return nil
	}
	s.events.Delete(id)
	if gone != nil {
		return gone
	}
	return ErrNoProcess
}
