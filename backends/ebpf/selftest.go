package ebpf

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// selfTestTime is how long the record of what a test did is waited for.
const selfTestTime = time.Second

// selfTest tells whether programs built with types that may not be the running
// kernel's read the right things: the process is made to leave a record, which
// is compared with what it knows of itself.
func (s *Source) selfTest() error {
	if s.capabilities.Kinds[engine.KindComm].Origin == engine.OriginNone {
		return fmt.Errorf("no program to test the kernel's types with: name a BTF file with %s", btfhub.PathVariable)
	}
	truth, err := btfhub.ReadLeader()
	if err != nil {
		return err
	}
	if err := truth.Provoke(); err != nil {
		return err
	}
	for end := time.Now().Add(selfTestTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for record := s.ring.next(); record != nil; record = s.ring.next() {
			var ev engine.RawEvent
			if decode(&ev, record) != nil || ev.Kind != engine.KindComm || ev.TID != truth.TID {
				continue
			}
			s.ring.release()
			return truth.Check(btfhub.Self{
				TID: ev.TID, PID: ev.PID, PPID: ev.Task.PPID, UID: ev.Task.Cred.UID,
				Comm: string(ev.Bytes(engine.FieldComm)), StartBoottime: ev.Task.Start,
			})
		}
		s.ring.release()
	}
	return fmt.Errorf("the kernel's types do not fit: no record of process %d: name a BTF file with %s", truth.TID, btfhub.PathVariable)
}
