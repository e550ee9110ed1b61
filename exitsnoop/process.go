package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// process is a process with a pidfd. If the process runs after a read from /proc, the read was not
// of a later process with the same pid.
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
func (p *process) start() (from, to uint64, err error) {
	st, err := readStat(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, 0, err
	}
	return st.Start, st.Start + proctext.Tick, nil
}

const (
	// A read takes microseconds. After readPatience it is abandoned if its thread sleeps in the
	// kernel, and after readLimit in any case: emulated machines are slow.
	readPatience = 100 * time.Millisecond
	readLimit    = 3 * time.Second
)

// errBlocked is the error of a read that a process blocks.
var errBlocked = errors.New("the process blocks reads of its files in /proc: try again later")

// within reads a file of a process. From Linux 6.18 on, a process can block reads of all its files
// for any time, for example with a file system that hangs. The error is then errBlocked.
func within[T any](path string, read func(path string) (T, error)) (value T, err error) {
	type result struct {
		value T
		err   error
	}
	results, thread := make(chan result, 1), make(chan int, 1)
	go func() {
		thread <- unix.Gettid()
		v, err := read(path)
		results <- result{v, err}
	}()
	reader := fmt.Sprintf("/proc/self/task/%d/stat", <-thread)
	for waited := readPatience; ; waited += readPatience {
		select {
		case r := <-results:
			return r.value, r.err
		case <-time.After(readPatience):
		}
		if st, err := proctext.ReadStat(reader); waited >= readLimit || err == nil && st.State == 'D' {
			return value, fmt.Errorf("read %s for %v: %w", path, waited, errBlocked)
		}
	}
}

// readStat reads a stat file.
func readStat(path string) (proctext.Stat, error) { return within(path, proctext.ReadStat) }

// namespace returns the pid namespace of the process.
func (p *process) namespace() (PidnsInfo, error) {
	return within(fmt.Sprintf("/proc/%d/ns/pid", p.pid), namespaceOf)
}

func namespaceOf(path string) (PidnsInfo, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return PidnsInfo{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return PidnsInfo{Dev: st.Dev, Ino: st.Ino}, nil
}

// inInitialNamespace returns ErrNamespace if the caller is in another pid or time namespace, where
// pids or start times differ from those that the program sees.
func inInitialNamespace() error {
	for _, kind := range []string{"pid", "time"} {
		if !proctext.InInitialNamespace(kind) {
			return fmt.Errorf("%w: the caller must be in the initial %s namespace", ErrNamespace, kind)
		}
	}
	return nil
}

// endWillBeSeen reports whether the program is certain to see the end of the process. The program
// sees the last thread exit, so one thread that has not begun to exit is enough. While the leader
// exits the result is false: the program may already have run for the leader.
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
	list, err := within(dir, os.ReadDir)
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
