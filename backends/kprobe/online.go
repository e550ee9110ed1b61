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
// so the list is also read each time while a CPU has no ring.
type online struct {
	list   *os.File // in sysfs, held open: the root may change
	socket int      // -1 if there is none
	text   []byte   // the list
	cpus   []int    // the same
	all    int      // how many CPUs there are, offline ones too
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
	if bytes.Equal(o.text, o.buf[:n]) {
		return nil
	}
	o.text = append(o.text[:0], o.buf[:n]...)
	o.cpus, err = perf.ParseCPUs(o.cpus[:0], string(o.text))
	return err
}

// changes reads the kernel's announcements. It reports whether there are any, and calls told for
// each, with -1 if some were lost, of whatever CPUs.
func (o *online) changes(told func(cpu int, gone bool)) (changed bool) {
	if o.socket < 0 {
		return false
	}
	for {
		n, err := unix.Read(o.socket, o.buf[:])
		if err == unix.ENOBUFS { // announcements were lost
			changed = true
			told(-1, true)
			continue
		}
		if err != nil || n == 0 {
			return changed
		}
		if cpu, gone, ok := parseCPUEvent(o.buf[:n]); ok {
			changed = true
			told(cpu, gone)
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
	changed := o.changes(func(cpu int, gone bool) {
		for _, c := range s.cpus {
			c.gone = c.gone || gone && (cpu < 0 || c.number == cpu)
		}
		if cpu < 0 || !gone && !s.sees(cpu) { // it may have gone again since
			s.miss(cpu)
		}
	})
	gone := slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.gone })
	if !changed && !gone && len(s.cpus) >= o.all || o.read() != nil {
		return
	}
	for _, c := range s.cpus {
		c.gone = c.gone || !slices.Contains(o.cpus, c.number)
	}
	for _, n := range o.cpus {
		if s.sees(n) {
			continue
		}
		// Without a ring it is gone again, as the next announcement says.
		if err := s.addCPU(n); err != nil && !errors.Is(err, perf.ErrNoCPU) {
			note := fmt.Sprintf("CPU %d came online and is not seen: %v", n, err)
			if !slices.Contains(s.capabilities.Notes, note) {
				s.capabilities.Notes = append(s.capabilities.Notes, note)
			}
		}
		s.miss(n)
	}
}

// sees reports whether a CPU has a ring, and is not known to have gone.
func (s *Source) sees(number int) bool {
	return slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.number == number && !c.gone })
}

// miss remembers that what happened on a CPU until now is lost, and how much that was is unknown.
func (s *Source) miss(number int) {
	s.blind = true
	if !slices.Contains(s.unseen, number) {
		s.unseen = append(s.unseen, number)
	}
}

func (o *online) close() error {
	if o.socket >= 0 {
		unix.Close(o.socket)
	}
	return o.list.Close()
}
