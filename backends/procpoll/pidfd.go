package procpoll

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidfds are descriptors of the processes that are known. One tells that its process has ended,
// whoever has the number then, and from Linux 6.15 on with which status.
type pidfds struct {
	epoll  int // of all that were not seen to be over
	room   int // how many more may be opened
	events [64]unix.EpollEvent
}

// none stands for no descriptor.
const none = -1

func newPidfds() (*pidfds, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &pidfds{epoll: epoll}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		const most = 1 << 20
		p.room = int(min(limit.Cur/2, most)) // the rest is the caller's
	}
	return p, nil
}

// open returns a descriptor of a process, none if there can't be one.
func (p *pidfds) open(pid uint32) int32 {
	if p.room <= 0 {
		return none
	}
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return none
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pid)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		unix.Close(fd)
		return none
	}
	p.room--
	return int32(fd)
}

// close closes a descriptor, if it is one.
func (p *pidfds) close(fd int32) {
	if p != nil && fd != none {
		unix.Close(int(fd))
		p.room++
	}
}

// ended calls f with each process that is over, and its descriptor is not asked again.
func (p *pidfds) ended(f func(pid uint32) (fd int32)) {
	for {
		n, err := unix.EpollWait(p.epoll, p.events[:], 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for i := range max(n, 0) {
			if fd := f(uint32(p.events[i].Fd)); fd != none {
				unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, int(fd), nil)
			}
		}
		if err == nil && n < len(p.events) {
			return
		}
	}
}

// over reports whether the process of a descriptor is over.
func over(fd int32) bool {
	poll := [1]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
	n, err := unix.Poll(poll[:], 0)
	return err == nil && n == 1
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h as of Linux 6.13.
type pidfdInfo struct {
	mask     uint64
	_        uint64
	_        [11]uint32 // pid, tgid, ppid and ids
	exitCode int32
}

const (
	getPidfdInfo  = 0xc040ff0b // PIDFD_GET_INFO, of 64 bytes
	pidfdInfoExit = 1 << 3     // PIDFD_INFO_EXIT
)

// exitStatus returns the wait status of the leader of a process that was waited for.
func exitStatus(fd int32) (status int32, ok bool) {
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), getPidfdInfo, uintptr(unsafe.Pointer(&info)))
	return info.exitCode, errno == 0 && info.mask&pidfdInfoExit != 0
}
