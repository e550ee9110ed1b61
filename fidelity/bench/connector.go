package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
)

// Filtered is a way to learn of the ends of processes, and what it cost.
type Filtered struct {
	Way      string        `json:"way"`
	CPU      time.Duration `json:"cpu_ns"` // of the listening thread
	Messages int           `json:"messages"`
}

// The kinds of the proc connector's events, of linux/cn_proc.h.
const (
	procFork = 0x00000001
	procExec = 0x00000002
	procExit = 0x80000000
)

// batchOf processes exist at a time; what is measured is the handling of their ends.
const batchOf = 200

// Experiment repeats the measurement that came with the proc connector's filter: n
// processes fork, execute and end while one thread listens to their exits alone, to
// forks and exits, to forks, exits and execs; and, as the alternative, while it polls
// a pidfd of each. Published for 8,000 exits were 70, 150, 200 and 200 ms.
func Experiment(program string, n int) (list []Filtered, err error) {
	for _, c := range []struct {
		way  string
		mask uint32
	}{{"exits", procExit}, {"forks and exits", procFork | procExit}, {"forks, exits and execs", procFork | procExit | procExec}} {
		f, err := connector(program, n, c.mask)
		if err != nil {
			return nil, fmt.Errorf("listen to %s: %w", c.way, err)
		}
		f.Way = c.way
		list = append(list, *f)
	}
	f, err := pidfds(program, n)
	if err != nil {
		return nil, fmt.Errorf("poll pidfds: %w", err)
	}
	return append(list, *f), nil
}

// connector listens with a filter in the kernel.
func connector(program string, n int, mask uint32) (*Filtered, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}); err != nil {
		return nil, err
	}
	// A filter is taken from those who listen already.
	for _, payload := range [][]uint32{{1}, {1, mask}} {
		if err := unix.Sendto(fd, request(payload), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, err
		}
	}
	done := make(chan struct{})
	out := make(chan Filtered, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		f := Filtered{}
		ended, over := 0, false
		before := threadCPU()
		for buf := make([]byte, 4096); ended < n && !over; {
			got, err := unix.Read(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				select {
				case <-done:
					over = true
				default:
				}
			case err != nil:
				failed <- err
				return
			case got >= 40:
				what := binary.NativeEndian.Uint32(buf[36:])
				if what != 0 && what&^mask != 0 {
					failed <- errors.New("the kernel does not filter: that takes Linux 6.6")
					return
				}
				f.Messages++
				if what == procExit {
					ended++
				}
			}
		}
		f.CPU = threadCPU() - before
		out <- f
	}()
	err = crowd(program, n, func([]*bare.Process) error { return nil }, func() error { return nil })
	close(done)
	if err != nil {
		return nil, err
	}
	select {
	case err := <-failed:
		return nil, err
	case f := <-out:
		return &f, nil
	}
}

// request is a whole netlink message of the connector.
func request(payload []uint32) []byte {
	ne := binary.NativeEndian
	var b []byte
	b = ne.AppendUint32(b, uint32(16+20+4*len(payload)))
	b = ne.AppendUint16(b, unix.NLMSG_DONE)
	b = ne.AppendUint16(b, 0)
	for _, v := range []uint32{0, 0, 1, 1, 0, 0} { // seq, pid; idx, val, seq, ack
		b = ne.AppendUint32(b, v)
	}
	b = ne.AppendUint16(b, uint16(4*len(payload)))
	b = ne.AppendUint16(b, 0)
	for _, v := range payload {
		b = ne.AppendUint32(b, v)
	}
	return b
}

// pidfds polls a descriptor of each process.
func pidfds(program string, n int) (*Filtered, error) {
	// The calling thread does nothing else that counts: see the readings.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(epoll)
	f := &Filtered{Way: "pidfds"}
	open := make(map[int32]bool)
	add := func(all []*bare.Process) error {
		before := threadCPU()
		defer func() { f.CPU += threadCPU() - before }()
		for _, p := range all {
			fd, err := unix.PidfdOpen(p.PID, 0)
			if err != nil {
				return err
			}
			open[int32(fd)] = true
			if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
				return err
			}
		}
		return nil
	}
	wait := func() error {
		before := threadCPU()
		defer func() { f.CPU += threadCPU() - before }()
		for events := make([]unix.EpollEvent, 64); len(open) > 0; {
			got, err := unix.EpollWait(epoll, events, -1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			for _, ev := range events[:max(got, 0)] {
				f.Messages++
				delete(open, ev.Fd)
				unix.Close(int(ev.Fd))
			}
		}
		return nil
	}
	err = crowd(program, n, add, wait)
	for fd := range open {
		unix.Close(int(fd))
	}
	return f, err
}

// crowd runs n processes that execute a program which ends at once, some at a time:
// they are born, shown to the first function, let loose and waited for.
func crowd(program string, n int, born func([]*bare.Process) error, loose func() error) error {
	for n > 0 {
		size := min(n, batchOf)
		n -= size
		if err := group(program, size, born, loose); err != nil {
			return err
		}
	}
	return nil
}

func group(program string, size int, born func([]*bare.Process) error, loose func() error) (err error) {
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	var all []*bare.Process
	defer func() {
		unix.Close(gate[0])
		for _, p := range all {
			for {
				if _, err := unix.Wait4(p.PID, nil, 0, nil); err != unix.EINTR {
					break
				}
			}
			err = errors.Join(err, p.Check())
			p.Free()
		}
	}()
	for range size {
		s := new(bare.Script).Call("close", unix.SYS_CLOSE, gate[1])
		p, err := bare.Start(s.WaitFor(gate[0]).Exec(program, []string{"crowd"}, nil), bare.Options{})
		if err != nil {
			unix.Close(gate[1])
			return err
		}
		all = append(all, p)
	}
	err = born(all)
	unix.Close(gate[1]) // all read the end of the pipe
	return errors.Join(err, loose())
}

// threadCPU is the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail
	return time.Duration(ts.Nano())
}
