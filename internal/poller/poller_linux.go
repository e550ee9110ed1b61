package poller

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// Poller waits for the source, for Wake and for a timer.
//
// It sleeps in Go's network poller, and makes its other system calls, which do not block, as raw
// ones. Otherwise the runtime's monitor thread would wake up for each system call and each due Go
// timer, and then every 20 microseconds as long as there is work. That costs more than the work.
// Its zero value can be closed and woken.
type Poller struct {
	waiting sync.Mutex  // held during a wait
	closed  atomic.Bool // ends a wait
	mu      sync.Mutex  // guards woken, and the descriptors during Close

	epoll, event, timer int
	opened              bool
	watched             bool // the user polls the descriptor, so the timer must be set
	set                 bool // the timer is running
	woken               bool // by a Wake since the last Expose

	// next is called before each wait and returns its limit, if ok.
	next func() (wait time.Duration, ok bool)

	file  *os.File // a duplicate of epoll that Go polls, from the first wait on
	conn  syscall.RawConn
	ready func(epoll uintptr) bool
	limit time.Duration // limit of the current wait; negative for none
	slept bool          // the current wait has slept
	ended bool          // a wake has ended the current wait
	err   error         // error of ready
}

// Open creates the descriptors. The Poller waits for the descriptors source and clock, negative for
// none, and calls next before each wait: the wait is at most as long as next returns, if ok.
func (p *Poller) Open(source, clock int, next func() (time.Duration, bool)) (err error) {
	p.next = next
	p.epoll, p.event, p.timer = -1, -1, -1
	p.opened = true
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create event descriptor: %w", err)
	}
	if p.timer, err = wait.Timer(); err != nil {
		return err
	}
	p.epoll, err = wait.NewEpoll(p.event, p.timer, source, clock)
	return err
}

// Close ends a wait and closes the descriptors. Expose must not be called afterwards.
func (p *Poller) Close() error {
	p.closed.Store(true)
	if !p.opened {
		return nil
	}
	p.Wake()
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unregister()
	for _, fd := range []int{p.timer, p.event, p.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	p.epoll, p.event, p.timer = -1, -1, -1
	return nil
}

// arm sets the timer to expire after wait if ok, and otherwise disarms it.
func (p *Poller) arm(wait time.Duration, ok bool) error {
	if !ok && !p.set {
		return nil
	}
	var spec unix.ItimerSpec
	if ok {
		spec.Value = unix.NsecToTimespec(int64(max(wait, 1)))
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(p.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set timer: %w", errno)
	}
	p.set = ok
	return nil
}

// Expose prepares the descriptor for a user who polls it: it sets the timer to the result of pause,
// and clears an earlier Wake.
func (p *Poller) Expose(pause func() (time.Duration, bool)) error {
	if !p.watched {
		return nil
	}
	if err := p.arm(pause()); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The user may not have seen a Wake since the last Expose: it must end the next wait.
	if !p.woken {
		p.clear()
	}
	p.woken = false
	return nil
}

// clear resets the event descriptor after a Wake.
func (p *Poller) clear() {
	var b [8]byte
	unix.Read(p.event, b[:])
}

// Watch returns the descriptor for the user to poll, and ends polling by Go: the readiness of a
// perf ring is reported only once, to the first poller, which must be the user.
func (p *Poller) Watch() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = true
	p.unregister()
	return p.epoll
}

// Wait sleeps until a descriptor is ready or the timeout expires; a negative timeout never does.
// It reports whether a wake has ended it, and returns os.ErrClosed during and after Close.
func (p *Poller) Wait(timeout time.Duration) (woken bool, err error) {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	if p.closed.Load() {
		return false, os.ErrClosed
	}
	if err := p.sleep(timeout); err != nil {
		return false, err
	}
	if p.closed.Load() {
		return false, os.ErrClosed
	}
	return p.ended, nil
}

func (p *Poller) sleep(timeout time.Duration) error {
	p.limit, p.slept, p.ended, p.err = timeout, false, false, nil
	// A thread waits if Go's poller has no descriptor, as under a lowered limit.
	if p.watched || p.file == nil && p.register() != nil {
		if !p.prepare(uintptr(p.epoll)) {
			p.checkReady(uintptr(p.epoll), true)
		}
		return p.err
	}
	if err := p.conn.Read(p.ready); err != nil {
		return fmt.Errorf("wait for events: %w", err)
	}
	return p.err
}

// register adds the descriptor to Go's network poller.
func (p *Poller) register() error {
	fd, err := unix.FcntlInt(uintptr(p.epoll), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // required by os.NewFile
		unix.Close(fd)
		return err
	}
	p.file = os.NewFile(uintptr(fd), "epoll")
	if p.conn, err = p.file.SyscallConn(); err != nil {
		p.unregister()
		return err
	}
	p.ready = func(epoll uintptr) bool {
		if p.slept { // the event that woke Go may not be reported again
			p.checkReady(epoll, false)
			return true
		}
		p.slept = true
		return p.prepare(epoll)
	}
	return nil
}

func (p *Poller) unregister() {
	if p.file != nil {
		p.file.Close()
		p.file = nil
	}
}

// prepare sets the timer and reports whether the wait is over without sleeping. It calls next
// itself, because Go's poller notices only events from here on.
func (p *Poller) prepare(epoll uintptr) bool {
	timeout := p.limit
	if wait, ok := p.next(); ok && (timeout < 0 || wait < timeout) {
		timeout = wait
	}
	if timeout != 0 {
		if p.err = p.arm(timeout, timeout > 0); p.err != nil {
			return true
		}
	}
	return p.checkReady(epoll, false) || timeout == 0
}

// checkReady reports whether a descriptor is ready. If block is set, it waits for that.
func (p *Poller) checkReady(epoll uintptr, block bool) bool {
	call, msec := unix.RawSyscall6, 0
	if block {
		call, msec = unix.Syscall6, -1
	}
	var events [4]unix.EpollEvent
	n, _, errno := call(unix.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(&events)), uintptr(len(events)), uintptr(msec), 0, 0)
	if errno != 0 {
		if errno != unix.EINTR {
			p.err = fmt.Errorf("wait for events: %w", errno)
		}
		return true
	}
	for i := range n {
		if events[i].Fd == int32(p.event) {
			p.clear()
			p.ended = true
		}
	}
	return n > 0
}

// Wake ends a wait.
func (p *Poller) Wake() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = true
	// Errors do not matter: a full counter wakes too, and after Close there are no waiters.
	unix.Write(p.event, b[:])
}
