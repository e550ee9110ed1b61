package kprobe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/backends/internal/perf"
	"golang.org/x/sys/unix"
)

// online keeps the list of online CPUs. The kernel announces a change on a netlink socket, after
// which the list in sysfs is read again. It announces a CPU after tasks have begun to run there,
// so the list is also read each time while a CPU is offline.
type online struct {
	list   *os.File // in sysfs, held open: the root may change
	socket int      // -1 if there is none
	cpus   []int
	all    int // how many CPUs there are, offline ones too
	buf    [4096]byte
}

const (
	onlineCPUs  = "/sys/devices/system/cpu/online"
	presentCPUs = "/sys/devices/system/cpu/present"
)

func openOnline() (*online, error) {
	f, err := os.Open(onlineCPUs)
	if err != nil {
		return nil, fmt.Errorf("find the online CPUs: %w: mount sysfs on /sys", err)
	}
	o := &online{list: f, socket: -1}
	if b, err := os.ReadFile(presentCPUs); err == nil {
		present, _ := perf.ParseCPUs(nil, string(b))
		o.all = len(present)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		// Group 1 is what the kernel itself sends.
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err == nil {
			o.socket = fd
		} else {
			unix.Close(fd)
		}
	}
	if err := o.read(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *online) read() error {
	n, err := o.list.ReadAt(o.buf[:], 0)
	if n == 0 && err != nil {
		return fmt.Errorf("find the online CPUs: %w", err)
	}
	cpus, err := perf.ParseCPUs(o.cpus[:0], string(o.buf[:n]))
	o.cpus = cpus
	return err
}

// changes reads the kernel's announcements. It reports whether CPUs came or went, and calls gone
// for each that went, with -1 if it may be any.
func (o *online) changes(gone func(cpu int)) (changed bool) {
	if o.socket < 0 {
		return false
	}
	for {
		n, err := unix.Read(o.socket, o.buf[:])
		if err == unix.ENOBUFS { // announcements were lost
			changed = true
			gone(-1)
			continue
		}
		if err != nil || n == 0 {
			return changed
		}
		cpu, went, ok := parseCPUEvent(o.buf[:n])
		if !ok {
			continue
		}
		changed = true
		if went {
			gone(cpu)
		}
	}
}

// parseCPUEvent parses the announcement of a CPU that came or went:
// "online@/devices/system/cpu/cpu1", NUL, and more.
func parseCPUEvent(b []byte) (cpu int, gone, ok bool) {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	action, number, ok := strings.Cut(string(b), "@/devices/system/cpu/cpu")
	n, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil {
		return 0, false, false
	}
	switch action {
	case "offline", "remove":
		return int(n), true, true
	case "online", "add":
		return int(n), false, true
	}
	return 0, false, false
}

// follow opens rings for CPUs that came, and marks the rings of CPUs that went. The perf events of
// a CPU end when it goes offline and do not come back with it.
func (o *online) follow(s *Source) {
	changed := o.changes(func(cpu int) {
		for _, c := range s.cpus {
			c.gone = c.gone || cpu < 0 || c.number == cpu
		}
	})
	if !changed && len(o.cpus) >= o.all || o.read() != nil {
		return
	}
	for _, c := range s.cpus {
		c.gone = c.gone || !slices.Contains(o.cpus, c.number)
	}
	for _, n := range o.cpus {
		if slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.number == n && !c.gone }) {
			continue
		}
		// Without a ring it is gone again, as the next announcement says.
		if err := s.addCPU(n); err != nil && !errors.Is(err, perf.ErrNoCPU) {
			s.capabilities.Notes = append(s.capabilities.Notes, fmt.Sprintf("CPU %d came online and is not seen: %v", n, err))
		}
		// What happened on the CPU before this is lost, and its number is unknown.
		s.blind = true
		s.unseen = append(s.unseen, n)
	}
}

func (o *online) close() error {
	if o.socket >= 0 {
		unix.Close(o.socket)
	}
	return o.list.Close()
}
