package exitsnoop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process held by a pidfd. What is read of it from /proc is of it,
// and not of one that took its pid, if it is found alive afterwards.
type process struct {
	pid   uint32
	pidfd int
}

// openProcess takes hold of a process. It may be dead already.
func openProcess(pid uint32) (*process, error) {
	if pid == 0 || pid > 1<<31-1 {
		return nil, ErrBadPid
	}
	fd, err := unix.PidfdOpen(int(pid), unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) {
		// PIDFD_NONBLOCK came with Linux 5.10. EINVAL is also said of a thread
		// that leads no group; later kernels say ENOENT.
		if fd, err = unix.PidfdOpen(int(pid), 0); err == nil {
			unix.SetNonblock(fd, true)
		}
	}
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return nil, ErrNoProcess
	case err != nil:
		return nil, fmt.Errorf("open a pidfd: %w", err)
	}
	return &process{pid, fd}, nil
}

func (p *process) close() { unix.Close(p.pidfd) }

// ended reports whether the last thread has ended.
func (p *process) ended() bool { return readable(p.pidfd) }

// endsWithin waits for the last thread to end, not longer than a time of whole ms,
// and sometimes less.
func (p *process) endsWithin(d time.Duration) {
	unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, int(d.Milliseconds()))
}

// readable polls a descriptor without waiting. A pidfd is readable when all
// threads have ended, since Linux 5.3.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// start returns when the process started, [from, to) in ns since boot.
func (p *process) start(clock clock) (from, to uint64, err error) {
	st, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, 0, err
	}
	from, to = clock.span(st.start)
	return from, to, nil
}

// namespace returns the pid namespace that the process lives in.
func (p *process) namespace() (PidnsInfo, error) {
	return namespaceOf(fmt.Sprintf("/proc/%d/ns/pid", p.pid))
}

func namespaceOf(path string) (PidnsInfo, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return PidnsInfo{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return PidnsInfo{Dev: st.Dev, Ino: st.Ino}, nil
}

// initialPIDNamespace is the inode number of the initial pid namespace, a
// constant of the kernel (PROC_PID_INIT_INO).
const initialPIDNamespace = 0xEFFFFFFC

// inInitialNamespace returns ErrNamespace where the caller's pids are not those
// that the program sees.
func inInitialNamespace() error {
	own, err := namespaceOf("/proc/self/ns/pid")
	if err == nil && own.Ino != initialPIDNamespace {
		err = fmt.Errorf("%w: the caller must be in the initial one, not in %d", ErrNamespace, own.Ino)
	}
	return err
}

// minorBits is how many bits the kernel's own device numbers have for the minor.
const minorBits = 20

// kernelDev and userDev convert between the device of stat(2) and that of the kernel.
func kernelDev(dev uint64) uint64 {
	return uint64(unix.Major(dev))<<minorBits | uint64(unix.Minor(dev))
}

func userDev(dev uint64) uint64 {
	return unix.Mkdev(uint32(dev>>minorBits), uint32(dev&(1<<minorBits-1)))
}

// passes says whether the process is certain to come by the tracepoint again in
// a way that tells its end. As long as one thread has not begun to exit, the
// last one is still to come; and the leader must not be on its way between the
// tracepoint and its end, where the program cannot see that it has come by.
func (p *process) passes() (bool, error) {
	leader, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	switch {
	case err != nil:
		return false, unlessGone(err)
	case !leader.exiting():
		return true, nil
	case leader.state != 'Z':
		return false, nil
	}
	dir := fmt.Sprintf("/proc/%d/task", p.pid)
	list, err := os.ReadDir(dir)
	for _, e := range list {
		st, e := readStat(dir + "/" + e.Name() + "/stat")
		if e == nil && !st.exiting() {
			return true, nil
		}
		err = errors.Join(err, unlessGone(e))
	}
	return false, unlessGone(err)
}

// unlessGone returns errors other than those of a process that is not there.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// stat is what we take from /proc/PID/stat.
type stat struct {
	state byte
	flags uint64
	start uint64 // ticks since boot
}

// flagExiting is PF_EXITING of linux/sched.h: set before the tracepoint is passed.
const flagExiting = 4

func (s *stat) exiting() bool { return s.flags&flagExiting != 0 }

func readStat(path string) (stat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	st, ok := parseStat(b)
	if !ok {
		return stat{}, fmt.Errorf("read %s: the text makes no sense", path)
	}
	return st, nil
}

// parseStat parses the line of proc(5). comm may hold anything; it ends at the
// last parenthesis, because only numbers follow.
func parseStat(b []byte) (st stat, ok bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	// The first is field 3 of proc(5).
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, false
	}
	var err1, err2 error
	st.state = f[0][0]
	st.flags, err1 = strconv.ParseUint(f[9-3], 10, 64)
	st.start, err2 = strconv.ParseUint(f[22-3], 10, 64)
	return st, err1 == nil && err2 == nil
}

// tick is the unit of times in /proc/PID/stat, USER_HZ, on every architecture we
// run on.
const tick = 10_000_000

// clock is the offset, in ns, of the boot time that this process sees in /proc.
type clock int64

// ownClock reads the offset of the caller's time namespace (Linux 5.6).
func ownClock() clock {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0
	}
	return parseOffsets(string(b))
}

func parseOffsets(s string) clock {
	for l := range strings.Lines(s) {
		f := strings.Fields(l)
		if len(f) != 3 || f[0] != "boottime" && f[0] != "7" { // its number, in 5.6 to 5.7
			continue
		}
		sec, err1 := strconv.ParseInt(f[1], 10, 34) // the kernel's limit is far below
		ns, err2 := strconv.ParseInt(f[2], 10, 34)
		if err1 == nil && err2 == nil {
			return clock(sec*1e9 + ns)
		}
	}
	return 0
}

// span returns which times of the kernel are seen as these ticks.
func (c clock) span(ticks uint64) (from, to uint64) {
	from = ticks*tick - uint64(c)
	return from, from + tick
}
