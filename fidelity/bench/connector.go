package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

// Filtered is the cost of one way to learn of the ends of processes.
type Filtered struct {
	Way      string        `json:"way"`
	CPU      time.Duration `json:"cpu_ns"` // CPU time of the listening thread
	Messages int           `json:"messages"`
}

// Kinds of proc connector events (linux/cn_proc.h).
const (
	procFork = 0x00000001
	procExec = 0x00000002
	procExit = 0x80000000
)

// groupSize is the number of processes that exist at a time.
const groupSize = 200

// Experiment repeats the measurement that was published with the proc connector's filter: n
// processes fork, exec and exit while one thread listens to exits only, to forks and exits, to
// forks, exits and execs; and, as the alternative, while it polls a pidfd of each process. The
// published figures for 8,000 exits are 70, 150, 200 and 200 ms.
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

// connector measures listening to the proc connector with a filter in the kernel.
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
	// The kernel accepts a filter only from a socket that already listens.
	for _, payload := range [][]uint32{{1}, {1, mask}} {
		if err := unix.Sendto(fd, request(payload), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, err
		}
	}
	type heard struct {
		*Filtered
		err error
	}
	done, listener := make(chan struct{}), make(chan heard, 1)
	go func() {
		runtime.LockOSThread()
		f, err := listen(fd, n, mask, done)
		listener <- heard{f, err}
	}()
	err = crowd(program, n, func([]*bare.Process) error { return nil }, func() error { return nil })
	close(done)
	h := <-listener
	return h.Filtered, errors.Join(err, h.err)
}

// listen counts messages until n processes have ended, or until none has come for a while after
// done was closed.
func listen(fd, n int, mask uint32, done chan struct{}) (*Filtered, error) {
	f := new(Filtered)
	before := threadCPU()
	buf := make([]byte, 4096)
	for ended := 0; ended < n; {
		got, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			select {
			case <-done:
				n = ended
			default:
			}
		case err != nil:
			return nil, err
		case got >= 40:
			what := binary.NativeEndian.Uint32(buf[36:])
			if what != 0 && what&^mask != 0 {
				return nil, errors.New("the kernel does not filter: that takes Linux 6.6")
			}
			f.Messages++
			if what == procExit {
				ended++
			}
		}
	}
	f.CPU = threadCPU() - before
	return f, nil
}

// request encodes a netlink message to the proc connector.
func request(payload []uint32) []byte {
	n := uint16(4 * len(payload))
	b, _ := binary.Append(nil, binary.NativeEndian, struct { // of fixed size: cannot fail
		unix.NlMsghdr
		Idx, Val, Seq, Ack uint32 // struct cn_msg
		Len, Flags         uint16
	}{NlMsghdr: unix.NlMsghdr{Len: uint32(n) + 16 + 20, Type: unix.NLMSG_DONE}, Idx: 1, Val: 1, Len: n})
	b, _ = binary.Append(b, binary.NativeEndian, payload)
	return b
}

// pidfds measures polling a pidfd of each process.
func pidfds(program string, n int) (*Filtered, error) {
	// CPU time is read per thread, and only around the calls that are measured.
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

// crowd runs n processes in groups; each executes a program that ends at once. It calls born when a
// group has been forked, then lets the group execute, calls released and waits for all.
func crowd(program string, n int, born func([]*bare.Process) error, released func() error) error {
	for n > 0 {
		size := min(n, groupSize)
		n -= size
		if err := group(program, size, born, released); err != nil {
			return err
		}
	}
	return nil
}

func group(program string, size int, born func([]*bare.Process) error, released func() error) (err error) {
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	var all []*bare.Process
	defer func() {
		unix.Close(gate[0])
		for _, p := range all {
			_, waitErr := children.Wait(p.PID)
			err = errors.Join(err, waitErr, p.Check())
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
	unix.Close(gate[1]) // every process reads end of file and goes on
	return errors.Join(err, released())
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail
	return time.Duration(ts.Nano())
}
