package ebpf

import (
	"fmt"
	"os"
	"unsafe"
)

const follows = 1 // FOLLOWS of enum following in programs/users.h

// followedPages has a byte for each pid, which are below PID_MAX_LIMIT of linux/threads.h.
const followedPages = uint32(1 << 22 / unsafe.Sizeof(programsFollowingPage{}))

// Follow begins to report only the processes of the users of the options, if there are any. These
// processes, and all that are made until it returns, are reported to their ends: so of those that
// scan finds to exist none changes or ends without an event.
func (s *Source) Follow(pids []uint32, scan func() error) error {
	if len(s.shared.Users) == 0 {
		return scan()
	}
	if err := s.follow(pids); err != nil {
		return err
	}
	if err := scan(); err != nil {
		return err
	}
	s.control.set(s.control.scoped, 1)
	return nil
}

// follow has the programs follow processes. They may write to the array meanwhile, but only to
// bytes of the processes that their events are about.
func (s *Source) follow(pids []uint32) error {
	followed := window{fd: s.maps[programsMapFollowed].FD(), size: uint64(os.Getpagesize()), writable: true}
	defer followed.unmap()
	for _, pid := range pids {
		b := followed.from(uint64(pid))
		if b == nil {
			return fmt.Errorf("follow process %d: %w", pid, followed.err)
		}
		b[0] = follows
	}
	return nil
}
