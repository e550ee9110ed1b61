package selftest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/tinyelf"
)

const (
	programName = "quark-self-test"
	exitCode    = 7
)

// argv has several arguments, so that a wrong end shows.
var argv = []string{programName, "of", "the kernel's types"}

// witness is a child that waits until letGo.
type witness struct {
	pid   int
	stdin int   // the program waits for its end
	ready int   // the program writes a byte to it after its execve
	ptmx  []int // master sides of its terminal and of another one
}

// startWitness starts the witness program in a session of its own. The calling thread is its
// creator.
func startWitness() (w *witness, err error) {
	program, err := programFile()
	if err != nil {
		return nil, err
	}
	defer unix.Close(program)
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(in[0])
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		unix.Close(in[1])
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(out[1])
	w = &witness{stdin: in[1], ready: out[0]}
	// The first terminal may have the number 0, which a value that was not read has too.
	other := openTerminal(&w.ptmx)
	terminal := openTerminal(&w.ptmx)
	if other >= 0 {
		unix.Close(other)
	}
	attr := syscall.ProcAttr{
		Dir: workDir(),
		// arguments and environment are adjacent: a wrong end of the arguments shows
		Env:   []string{"QUARK_SELF_TEST=1"},
		Files: []uintptr{uintptr(in[0]), uintptr(out[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if terminal >= 0 {
		defer unix.Close(terminal)
		attr.Files = append(attr.Files, uintptr(terminal))
		attr.Sys.Setctty, attr.Sys.Ctty = true, len(attr.Files)-1
	}
	// The child resolves this path by its own descriptors, which are copies of ours.
	path := fmt.Sprintf("/proc/self/fd/%d", program)
	if w.pid, err = syscall.ForkExec(path, argv, &attr); err != nil {
		w.end()
		return nil, fmt.Errorf("execute a program in memory, which may need /proc, sysctl vm.memfd_noexec=0 and the leave of seccomp: %w", err)
	}
	return w, nil
}

// workDir returns a directory below the root of a mount on another mount.
func workDir() string {
	for _, dir := range []string{"/proc/sys/kernel", "/proc"} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/"
}

// programFile returns a descriptor of the executable in memory. It is none of those that a child
// gets as its standard descriptors before its execve.
func programFile() (int, error) {
	b, err := tinyelf.Waiter(exitCode)
	if err != nil {
		return -1, err
	}
	fd, err := unix.MemfdCreate(programName, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before 6.3 all are executable
		fd, err = unix.MemfdCreate(programName, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, fmt.Errorf("make an executable in memory (sysctl vm.memfd_noexec, seccomp): %w", err)
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, b); err != nil || n != len(b) {
		return -1, fmt.Errorf("write an executable in memory: %d of %d bytes, %w", n, len(b), err)
	}
	const lowest = 32
	far, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, lowest)
	if err != nil {
		return -1, fmt.Errorf("duplicate a descriptor: %w", err)
	}
	return far, nil
}

// openTerminal opens a terminal and appends its master side to ptmx. It returns -1 if there are no
// terminals.
func openTerminal(ptmx *[]int) int {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	*ptmx = append(*ptmx, master)
	if unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0) != nil {
		return -1
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1
	}
	return int(fd)
}

// begin waits until the program runs.
func (w *witness) begin(limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.ready), Events: unix.POLLIN}}, int(max(left, 0).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR) && left > 0:
			continue
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", w.pid, err)
		case n == 0:
			return fmt.Errorf("process %d did not begin within %v", w.pid, limit)
		}
		if n, err := unix.Read(w.ready, make([]byte, 1)); err != nil || n == 0 {
			return fmt.Errorf("process %d ended before it began: is it forbidden to execute what is in memory (sysctl vm.memfd_noexec, seccomp)?", w.pid)
		}
		return nil
	}
}

// letGo makes the program end.
func (w *witness) letGo() {
	if w.stdin >= 0 {
		unix.Close(w.stdin)
		w.stdin = -1
	}
}

// status returns the wait status of the ended witness program.
func (w *witness) status() (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(w.pid, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		w.pid = 0
		if errors.Is(err, unix.ECHILD) { // another part of this process has waited for it
			return exitCode << 8, nil
		}
		return status, err
	}
}

// end ends the witness program in whatever state it is, and frees what it uses.
func (w *witness) end() {
	w.letGo()
	if w.pid > 0 {
		unix.Kill(w.pid, unix.SIGKILL)
		w.status()
	}
	unix.Close(w.ready)
	for _, fd := range w.ptmx {
		unix.Close(fd)
	}
}
