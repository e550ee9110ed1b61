package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// Filtered is the cost of one way to learn of the ends of processes.
type Filtered struct {
	Way      string        `json:"way"`
	CPU      time.Duration `json:"cpu_ns"` // of the listening thread, or of the process
	Messages int           `json:"messages"`
	// Published is the CPU time that was published for 8,000 processes, 0 if none was.
	Published time.Duration `json:"published_ns,omitempty"`
}

// Kinds of proc connector events (linux/cn_proc.h).
const (
	procFork        = 0x00000001
	procExec        = 0x00000002
	procNonzeroExit = 0x20000000 // only in a filter
	procExit        = 0x80000000
)

// Published is the number of processes of the published measurement.
const Published = 8000

// groupSize is the number of processes that exist at a time.
const groupSize = 200

// ways is how many ways Experiment listens in.
const ways = 11

// Duration measures how long processes of [Experiment] take here while nobody listens, and returns
// how long it takes with n of them, about: listeners take a part of the CPUs, and quark's have to
// begin and to end. The program is written into a directory.
func Duration(dir string) (of func(n int) time.Duration, err error) {
	const groups, slower, start = 3, 2, 300 * time.Millisecond
	program := filepath.Join(dir, "crowd")
	if err := tinyelf.Write(program, 0); err != nil {
		return nil, err
	}
	began := time.Now()
	err = crowd(program, groups*groupSize, func([]*bare.Process) error { return nil }, func() error { return nil })
	each := time.Since(began) / (groups * groupSize)
	return func(n int) time.Duration { return ways * (start + slower*each*time.Duration(n)) }, err
}

// Experiment repeats the measurement that was published with the proc connector's filter: n
// processes fork, exec and exit while one thread listens to exits only, to forks and exits, to
// forks, exits and execs; and, as the alternative, while it polls a pidfd of each process. Exits
// with a status other than 0 alone, which the filter can select too, are measured with processes of
// which all end with 0, and of which none does. At last a process listens with quark's backend to
// the same kinds. The programs are written into a directory. Before each way progress is called,
// with the share of the ways that are over.
func Experiment(dir string, n int, progress func(float64)) (list []Filtered, err error) {
	succeeds, fails := filepath.Join(dir, "crowd"), filepath.Join(dir, "failing-crowd")
	if err := errors.Join(tinyelf.Write(succeeds, 0), tinyelf.Write(fails, 1)); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		way, program string
		mask         uint32
		published    time.Duration
	}{
		{"exits", succeeds, procExit, 70}, {"forks and exits", succeeds, procFork | procExit, 150},
		{"forks, exits and execs", succeeds, procFork | procExit | procExec, 200},
		{"failing exits, of none", succeeds, procNonzeroExit, 0}, {"failing exits, of all", fails, procNonzeroExit, 0},
	} {
		progress(float64(len(list)) / ways)
		f, err := connector(c.program, n, c.mask)
		if err != nil {
			return nil, fmt.Errorf("listen to %s: %w", c.way, err)
		}
		f.Way, f.Published = c.way, c.published*time.Millisecond
		list = append(list, *f)
	}
	progress(float64(len(list)) / ways)
	f, err := pidfds(succeeds, n)
	if err != nil {
		return nil, fmt.Errorf("poll pidfds: %w", err)
	}
	f.Published = 200 * time.Millisecond
	list = append(list, *f)
	for _, c := range []struct{ way, program, kinds string }{
		{"exits", succeeds, "EXIT"}, {"forks and exits", succeeds, "FORK,EXIT"}, {"forks, exits and execs", succeeds, "FORK,EXEC,EXIT"},
		{"failing exits, of none", succeeds, meter.FailingExits}, {"failing exits, of all", fails, meter.FailingExits},
	} {
		progress(float64(len(list)) / ways)
		f, err := own(c.program, n, c.kinds)
		if err != nil {
			return nil, fmt.Errorf("listen to %s with quark: %w", c.way, err)
		}
		f.Way = "quark: " + c.way
		list = append(list, *f)
	}
	return list, nil
}

// own measures a process that listens with quark's backend, without /proc, to some kinds.
func own(program string, n int, kinds string) (*Filtered, error) {
	stop, err := meter.Start("cnproc+" + kinds)
	if err != nil {
		return nil, err
	}
	err = crowd(program, n, func([]*bare.Process) error { return nil }, func() error { return nil })
	u, err2 := stop()
	return &Filtered{CPU: u.CPU, Messages: int(u.Raw)}, errors.Join(err, err2)
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
	done, listener := make(chan uint64, 1), make(chan heard, 1)
	go func() {
		runtime.LockOSThread()
		f, err := listen(fd, mask, done)
		listener <- heard{f, err}
	}()
	err = crowd(program, n, func([]*bare.Process) error { return nil }, func() error { return nil })
	done <- truth.Clock()
	h := <-listener
	return h.Filtered, errors.Join(err, h.err)
}

// listen counts messages until done has the time after which none counts, and a later one or none
// has come. Processes of others make messages, too.
func listen(fd int, mask uint32, done chan uint64) (*Filtered, error) {
	f := new(Filtered)
	before := threadCPU()
	buf := make([]byte, 4096)
	for until := truth.Forever; ; {
		got, err := unix.Read(fd, buf)
		if until == truth.Forever {
			select {
			case until = <-done:
			default:
			}
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if until != truth.Forever {
				f.CPU = threadCPU() - before
				return f, nil
			}
		case err != nil:
			return nil, err
		case got >= 52:
			what, at := binary.NativeEndian.Uint32(buf[36:]), binary.NativeEndian.Uint64(buf[44:])
			if at > until {
				f.CPU = threadCPU() - before
				return f, nil
			}
			allowed := mask
			if mask&procNonzeroExit != 0 {
				allowed |= procExit // those that pass are of this kind
			}
			if what != 0 && what&^allowed != 0 {
				return nil, errors.New("the kernel does not filter: that takes Linux 6.6")
			}
			f.Messages++
		}
	}
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

// group runs processes that share the memory of this one until they execute: copies would make each
// page a fault of whoever listens in this process.
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
		p, err := bare.Start(s.WaitFor(gate[0]).Exec(program, []string{"crowd"}, nil), bare.Options{Share: true})
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

// PrintExperiment prints the results of an experiment with n processes, with tabs between them.
func PrintExperiment(out io.Writer, n int, list []Filtered) {
	fmt.Fprintf(out, "\nof %d processes, proc connector, learning of\tmessages\tCPU of the listener\tratio\tpublished for %d\tratio\n", n, Published)
	for _, f := range list {
		published, ratio := "-", "-"
		if f.Published > 0 {
			published = fmt.Sprintf("%.0f ms", float64(f.Published)/1e6)
			ratio = fmt.Sprintf("%.1f", float64(f.Published)/float64(list[0].Published))
		}
		fmt.Fprintf(out, "%s\t%d\t%.0f ms\t%.1f\t%s\t%s\n", f.Way, f.Messages, float64(f.CPU)/1e6, float64(f.CPU)/float64(max(1, list[0].CPU)), published, ratio)
	}
}
