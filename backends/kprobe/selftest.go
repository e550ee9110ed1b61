package kprobe

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// selfTestTime is how long the record of what a test did is waited for.
const selfTestTime = time.Second

// selfTest tells whether what is fetched through types that may not be the
// running kernel's is right: this thread is made to leave a record, which is
// compared with what it knows of itself.
func (s *Source) selfTest() error {
	if s.setOf(familyComm) == nil {
		return errors.New("no probe to test the kernel's types with: name a BTF file with " + btfhub.PathVariable)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	truth, err := btfhub.ReadSelf()
	if err != nil {
		return err
	}
	process, err := self()
	if err != nil {
		return err
	}
	threads := s.threads
	s.threads = true // whichever thread this is
	defer func() {
		// Counting starts after the test.
		s.threads, s.handed, s.lost, s.decode = threads, 0, 0, 0
	}()
	if err := truth.Provoke(); err != nil {
		return err
	}
	for end := time.Now().Add(selfTestTime); ; time.Sleep(time.Millisecond) {
		record := &witness{tid: truth.TID}
		if err := s.populate(record); err != nil {
			return err
		}
		if ev := record.found; ev != nil {
			// The record has the start of the process, not that of this thread.
			start := ev.Task.Start
			if start/engine.ProcStartUnit == process.start {
				start = truth.StartBoottime
			}
			return truth.Check(btfhub.Self{
				TID: ev.TID, PID: ev.PID, PPID: ev.Task.PPID, UID: ev.Task.Cred.UID,
				Comm: string(ev.Bytes(engine.FieldComm)), StartBoottime: start,
			})
		}
		if time.Now().After(end) {
			return fmt.Errorf("the kernel's types do not fit: no record of thread %d: name a BTF file with %s", truth.TID, btfhub.PathVariable)
		}
	}
}

// witness is a sink that keeps the last rename of one thread.
type witness struct {
	tid   uint32
	found *engine.RawEvent
}

func (w *witness) Room() int                 { return 1 }
func (w *witness) Reserve() *engine.RawEvent { return new(engine.RawEvent) }
func (w *witness) Release(*engine.RawEvent)  {}
func (w *witness) Insert(ev *engine.RawEvent) {
	if ev.Kind == engine.KindComm && ev.TID == w.tid {
		w.found = ev
	}
}
