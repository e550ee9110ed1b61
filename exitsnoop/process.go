package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// process is a process with a pidfd. If it has not ended after a read from /proc, the read was of
// this process and not of a later one with the same pid.
type process struct {
	pid uint32
	fd  int
}

// openProcess opens a pidfd. The process may have ended already.
func openProcess(pid uint32) (*process, error) {
	if pid == 0 || pid > 1<<31-1 {
		return nil, ErrBadPid
	}
	fd, err := unix.PidfdOpen(int(pid), 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		// The last two, depending on the kernel, mean a thread that is not a leader.
		return nil, ErrNoProcess
	case err != nil:
		return nil, kernelError("open a pidfd", err)
	}
	return &process{pid: pid, fd: fd}, nil
}

func (p *process) close() { unix.Close(p.fd) }

// ended reports whether all threads have ended.
func (p *process) ended() bool { return p.endsWithin(0) }

// endsWithin waits until all threads have ended, for at most d, rounded down to ms, and reports
// whether they have.
func (p *process) endsWithin(d time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, int(d.Milliseconds())); err != unix.EINTR {
			return n == 1
		}
	}
}

// start returns the range [from, to) in which the process started, ns of CLOCK_BOOTTIME.
func (p *process) start(offset bootOffset) (from, to uint64, err error) {
	st, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, 0, err
	}
	from, to = offset.span(st.Start)
	return from, to, nil
}

// readPatience limits a read of /proc. From Linux 6.18 on a process can block it for any time, for
// example with a file system that hangs.
const readPatience = 3 * time.Second

// readStat reads a stat file. It fails if the process blocks that.
func readStat(path string) (proctext.Stat, error) {
	var st proctext.Stat
	var err error
	done := make(chan struct{})
	go func() {
		st, err = proctext.ReadStat(path)
		close(done)
	}()
	select {
	case <-done:
		return st, err
	case <-time.After(readPatience):
		return proctext.Stat{}, fmt.Errorf("read %s: the process has blocked this for %v: try again later", path, readPatience)
	}
}

// namespace returns the pid namespace of the process.
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

// inInitialNamespace returns ErrNamespace if the caller is in another pid namespace, where pids
// differ from those that the program sees.
func inInitialNamespace() error {
	if !proctext.InInitialNamespace("pid") {
		return fmt.Errorf("%w: the caller must be in the initial one", ErrNamespace)
	}
	return nil
}

// minorBits is the number of bits of the minor number in the kernel's own dev_t (MINORBITS).
const minorBits = 20

// kernelDev and userDev convert between the device number of stat(2) and the kernel's own.
func kernelDev(dev uint64) uint64 {
	return uint64(unix.Major(dev))<<minorBits | uint64(unix.Minor(dev))
}

func userDev(dev uint64) uint64 {
	return unix.Mkdev(uint32(dev>>minorBits), uint32(dev&(1<<minorBits-1)))
}

// endWillBeSeen reports whether the program is certain to see the end of the process. It is if a
// thread has not begun to exit, since that one, or a later one, is the last. But the leader must
// not be between the tracepoint and its end: the program has already run for it then, which is not
// visible.
func (p *process) endWillBeSeen() (bool, error) {
	leader, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	switch {
	case err != nil:
		return false, unlessGone(err)
	case !leader.Exiting():
		return true, nil
	case leader.State != 'Z':
		return false, nil
	}
	dir := fmt.Sprintf("/proc/%d/task", p.pid)
	list, err := os.ReadDir(dir)
	for _, e := range list {
		st, e := readStat(dir + "/" + e.Name() + "/stat")
		if e == nil && !st.Exiting() {
			return true, nil
		}
		err = errors.Join(err, unlessGone(e))
	}
	return false, unlessGone(err)
}

// unlessGone returns errors except those of a missing process.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// bootOffset is the offset in ns of the boot time in this process's /proc from the kernel's.
type bootOffset int64

// ownOffset reads the offset of the caller's time namespace (Linux 5.6).
func ownOffset() bootOffset {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0
	}
	return parseOffsets(string(b))
}

func parseOffsets(s string) bootOffset {
	for l := range strings.Lines(s) {
		f := strings.Fields(l)
		if len(f) != 3 || f[0] != "boottime" && f[0] != "7" { // its number, in 5.6 to 5.7
			continue
		}
		sec, err1 := strconv.ParseInt(f[1], 10, 34) // the kernel's limit is far below
		ns, err2 := strconv.ParseInt(f[2], 10, 34)
		if err1 == nil && err2 == nil {
			return bootOffset(sec*1e9 + ns)
		}
	}
	return 0
}

// span returns the kernel's times that /proc shows as start.
func (c bootOffset) span(start uint64) (from, to uint64) {
	from = start - uint64(c)
	return from, from + proctext.Tick
}
