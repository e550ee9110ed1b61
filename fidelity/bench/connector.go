package bench

import (
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

// way is a method of detecting exits of processes. Its measurement runs n processes of a program,
// and returns the CPU time and the number of messages of the listening thread or process.
type way struct {
	name      string
	published int // published CPU time in ms for publishedProcesses, 0 if there is none
	measure   func(program string, n int) (cpu time.Duration, messages int, err error)
}

// publishedProcesses is the number of processes of the published measurement.
const publishedProcesses = 8000

// ways are the published methods, and quark's backend with the same kinds of events.
var ways = []way{
	{"exits", 70, filtered(procExit)},
	{"forks, exits", 150, filtered(procFork | procExit)},
	{"forks, exits, execs", 200, filtered(procFork | procExit | procExec)},
	{"quark: exits", 0, own("EXIT")},
	{"quark: forks, exits", 0, own("FORK,EXIT")},
	{"quark: forks, exits, execs", 0, own("FORK,EXEC,EXIT")},
}

// Kinds of proc connector events (linux/cn_proc.h).
const (
	procFork = 0x00000001
	procExec = 0x00000002
	procExit = 0x80000000
)

// own returns a measurement of a process that counts some kinds of events of quark's cnproc
// backend.
func own(kinds string) func(program string, n int) (time.Duration, int, error) {
	return func(program string, n int) (time.Duration, int, error) {
		counter, err := meter.Start("cnproc", kinds)
		if err != nil {
			return 0, 0, err
		}
		err = crowd(program, n)
		u, err2 := counter.Stop()
		return u.CPU, int(u.Raw), errors.Join(err, err2)
	}
}

// filtered returns a measurement of a thread whose messages the kernel filters by kind.
func filtered(kinds uint32) func(program string, n int) (time.Duration, int, error) {
	return func(program string, n int) (time.Duration, int, error) {
		fd, err := subscribe(kinds)
		if err != nil {
			return 0, 0, err
		}
		defer unix.Close(fd)
		type count struct {
			cpu      time.Duration
			messages int
			err      error
		}
		done, result := make(chan uint64, 1), make(chan count, 1)
		go func() {
			runtime.LockOSThread()
			var c count
			before := threadCPU()
			c.messages, c.err = listen(fd, kinds, done)
			c.cpu = threadCPU() - before
			result <- c
		}()
		err = crowd(program, n)
		done <- truth.Clock()
		c := <-result
		return c.cpu, c.messages, errors.Join(err, c.err)
	}
}

// subscribe opens a socket of the proc connector with a filter.
func subscribe(kinds uint32) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return 0, err
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	// The kernel accepts a filter only from a socket that already listens.
	for _, payload := range [][]uint32{{1}, {1, kinds}} {
		err = errors.Join(err, unix.Sendto(fd, request(payload), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
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

// listen counts messages. It returns after a message that is later than the time received from
// done, or when no more messages come. Other processes cause messages too.
func listen(fd int, kinds uint32, done chan uint64) (messages int, err error) {
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
				return messages, nil
			}
		case err != nil:
			return messages, err
		case got >= 52: // struct proc_event follows 36 bytes of headers
			kind, at := binary.NativeEndian.Uint32(buf[36:]), binary.NativeEndian.Uint64(buf[44:])
			if at > until {
				return messages, nil
			}
			if kind != 0 && kind&^kinds != 0 {
				return messages, errors.New("the kernel does not filter: that takes Linux 6.6")
			}
			messages++
		}
	}
}

// groupSize is the number of processes of a crowd that exist at a time.
const groupSize = 200

// crowd runs n processes in groups. Each process executes a program that exits at once.
func crowd(program string, n int) error {
	for n > 0 {
		size := min(n, groupSize)
		n -= size
		if err := group(program, size); err != nil {
			return err
		}
	}
	return nil
}

// group runs processes that share the memory of this process until their exec. If fork copied the
// memory, a listener in this process would have a page fault at each page that it writes.
func group(program string, size int) (err error) {
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	var all []*bare.Process
	defer func() {
		unix.Close(gate[1]) // every process waits for the end of file
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
			return err
		}
		all = append(all, p)
	}
	return nil
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail
	return time.Duration(ts.Nano())
}
