package ebpf

import (
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

const follows = 0 // FOLLOWS of enum following in programs/users.h

// Follow begins to report only the processes of the users of the options, if there are any. These
// processes, and all that are made until it returns, are reported to their ends: so of those that
// scan finds to exist none changes or ends without an event.
func (s *Source) Follow(pids []uint32, scan func() error) error {
	if len(s.shared.Users) == 0 {
		return scan()
	}
	for _, pid := range pids {
		if err := s.maps[programsMapFollowed].Update(pid, uint8(follows), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("follow process %d: %w", pid, err)
		}
	}
	if err := scan(); err != nil {
		return err
	}
	atomic.StoreUint32(s.control.scoped, 1)
	return nil
}
