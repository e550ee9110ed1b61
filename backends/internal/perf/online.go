package perf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// Online has the list of online CPUs. It reads the list from sysfs again when the kernel announces
// a change on a netlink socket. The announcement of a CPU comes after the first tasks run there, so
// each call of [Follow] also reads the list while a CPU has no ring. The zero value has no CPUs.
type Online struct {
	list   *os.File // in sysfs; kept open, as the root may change
	socket int      // -1 for none
	poll   int      // epoll
	text   []byte   // content of the list
	cpus   []int    // the list, parsed
	all    int      // number of CPUs, offline ones included
	buf    [4096]byte
}

const (
	onlineCPUs  = "/sys/devices/system/cpu/online"
	presentCPUs = "/sys/devices/system/cpu/present"
)

// OpenOnline opens the list of online CPUs. sysfs must be mounted on /sys.
func OpenOnline() (*Online, error) {
	f, err := os.Open(onlineCPUs)
	if err != nil {
		return nil, fmt.Errorf("find the online CPUs: %w: mount sysfs on /sys", err)
	}
	o := &Online{list: f, socket: -1, poll: -1}
	if b, err := os.ReadFile(presentCPUs); err == nil {
		present, _ := ParseCPUs(nil, string(b))
		o.all = len(present)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		// Group 1 has the kernel's own messages.
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err == nil {
			o.socket = fd
		} else {
			unix.Close(fd)
		}
	}
	if o.poll, err = wait.NewEpoll(o.socket); err == nil {
		err = o.read()
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (o *Online) read() error {
	n, err := o.list.ReadAt(o.buf[:], 0)
	if n == 0 && err != nil {
		return fmt.Errorf("find the online CPUs: %w", err)
	}
	if bytes.Equal(o.text, o.buf[:n]) {
		return nil
	}
	o.text = append(o.text[:0], o.buf[:n]...)
	o.cpus, err = ParseCPUs(o.cpus[:0], string(o.text))
	return err
}

// changes reads the kernel's announcements, and calls report for each. cpu is -1 if announcements
// were lost. The result is false if there were none.
func (o *Online) changes(report func(cpu int, gone bool)) (changed bool) {
	if o.list == nil || o.socket < 0 {
		return false
	}
	for {
		n, err := unix.Read(o.socket, o.buf[:])
		if err == unix.ENOBUFS { // announcements were lost
			changed = true
			report(-1, true)
			continue
		}
		if err != nil || n == 0 {
			return changed
		}
		if cpu, gone, ok := parseCPUEvent(o.buf[:n]); ok {
			changed = true
			report(cpu, gone)
		}
	}
}

// parseCPUEvent parses the announcement of a CPU that went online or offline:
// "online@/devices/system/cpu/cpu1", NUL, and other text.
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

// CPU has the ring of a CPU. Each source embeds it in its own type.
type CPU struct {
	Number  int
	Ring    *Ring
	Offline bool // the CPU is offline, but its ring has unread records
}

func (c *CPU) cpu() *CPU { return c }

// OfCPU is a type that embeds a CPU.
type OfCPU interface{ cpu() *CPU }

// Rings opens the rings of a source.
type Rings interface {
	// Add opens the ring of a CPU. The error is [ErrNoCPU] if the CPU is offline again.
	Add(cpu int) error

	// Miss records that an unknown number of events was lost until now on a CPU, or on any CPU
	// if cpu is -1.
	Miss(cpu int)

	// Failed records that all further events of a CPU will be missing.
	Failed(cpu int, err error)
}

// CPUs returns the CPUs that were online when the list was last read. The slice is valid until the
// next call of Follow.
func (o *Online) CPUs() []int { return o.cpus }

// FD polls readable if the list of CPUs has changed or a descriptor of Watch polls readable.
func (o *Online) FD() int { return o.poll }

// Watch adds a descriptor to FD. Closing the descriptor removes it.
func (o *Online) Watch(fd int) error { return wait.Add(o.poll, fd) }

// Follow opens rings for new CPUs, and marks the offline CPUs in all. The perf events of a CPU end
// when the CPU goes offline. They do not return when it is online again.
func Follow[C OfCPU](o *Online, all []C, rings Rings) {
	sees := func(cpu int) bool {
		return slices.ContainsFunc(all, func(c C) bool { return c.cpu().Number == cpu && !c.cpu().Offline })
	}
	changed := o.changes(func(cpu int, gone bool) {
		for _, c := range all {
			if of := c.cpu(); gone && (cpu < 0 || of.Number == cpu) {
				of.Offline = true
			}
		}
		if cpu < 0 || !gone && !sees(cpu) { // the CPU may be offline again
			rings.Miss(cpu)
		}
	})
	anyGone := slices.ContainsFunc(all, func(c C) bool { return c.cpu().Offline })
	if !changed && !anyGone && len(all) >= o.all || o.read() != nil {
		return
	}
	for _, c := range all {
		if of := c.cpu(); !slices.Contains(o.cpus, of.Number) {
			of.Offline = true
		}
	}
	for _, n := range o.cpus {
		if sees(n) {
			continue
		}
		// ErrNoCPU means that the CPU is offline again. The kernel announces this next.
		if err := rings.Add(n); err != nil && !errors.Is(err, ErrNoCPU) {
			rings.Failed(n, err)
		}
		rings.Miss(n)
	}
}

// Skip drops the announcements of changes. It is for tests.
func (o *Online) Skip() { o.changes(func(int, bool) {}) }

// Close closes the list and the descriptor of FD.
func (o *Online) Close() error {
	for _, fd := range []int{o.socket, o.poll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return o.list.Close()
}
