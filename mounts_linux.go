package quark

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

// watch has the kernel tell when the device of an open file, which is to be remembered, is
// unmounted. If that can't be watched the file is not remembered.
func (f *Files) watch(fd int, device uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetUnmounted()
	m := &f.mounts
	if len(m.devices) >= maxFiles {
		m.notices.Close()
		*m, f.files = mounts{}, nil
	}
	if m.notices == nil {
		n, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return
		}
		*m = mounts{os.NewFile(uintptr(n), "inotify"), n, make(map[int32]uint32), make(map[uint32]int), make(map[uint32]uint64)}
	}
	since := clock.Boottime()
	n, err := unix.InotifyAddWatch(m.fd, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_DELETE_SELF)
	if _, ok := m.devices[int32(n)]; ok || err != nil {
		return
	}
	if m.devices[int32(n)] = device; m.watches[device] == 0 {
		m.since[device] = since
	}
	m.watches[device]++
}

// ended returns the devices that are not watched any more, and which of them were unmounted: the
// kernel tells that before it gives their numbers again.
func (m *mounts) ended() (unmounted map[uint32]bool) {
	if m.notices == nil {
		return nil
	}
	var buf [4096]byte
	for {
		n, err := unix.Read(m.fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return unmounted
		}
		if unmounted == nil {
			unmounted = make(map[uint32]bool)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			watch, mask, name := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
			b = b[min(len(b), unix.SizeofInotifyEvent+name):]
			switch device, ok := m.devices[watch]; {
			case mask&unix.IN_Q_OVERFLOW != 0:
				for device := range m.since {
					unmounted[device] = true
				}
				clear(m.since)
				clear(m.watches)
				clear(m.devices)
			case !ok:
			case mask&unix.IN_UNMOUNT != 0:
				unmounted[device] = true
				delete(m.since, device)
			case mask&unix.IN_IGNORED != 0:
				delete(m.devices, watch)
				if m.watches[device]--; m.watches[device] == 0 {
					unmounted[device] = unmounted[device]
					delete(m.since, device)
					delete(m.watches, device)
				}
			}
		}
	}
}
