package selftest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/tinyelf"
)

const (
	programName = "quark-self-test"
	exitCode    = 7
)

// argv has several arguments, to detect a wrong end of the first argument.
var argv = []string{programName, "of", "the kernel's types"}

// testChild is a self-test child, which waits until release is called.
type testChild struct {
	cmd   exec.Cmd
	stdin *os.File   // the program waits until this is closed
	ready *os.File   // the program writes a byte here after its execve
	ptmx  []*os.File // master sides of its terminal and of another terminal
}

// startTestChild starts the self-test child in its own session. The calling thread is its creator.
func startTestChild() (w *testChild, err error) {
	program, err := programFile()
	if err != nil {
		return nil, err
	}
	defer unix.Close(program)
	w = &testChild{cmd: exec.Cmd{
		// The child resolves this path by its own descriptors, which are copies of ours.
		Path: fmt.Sprintf("/proc/self/fd/%d", program),
		Args: argv,
		Dir:  workDir(),
		// The environment follows the arguments in memory, to detect a wrong end of the
		// arguments.
		Env:         []string{"QUARK_SELF_TEST=1"},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}}
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w.stdin = stdin
	ready, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	w.ready = ready
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = in, out, out
	// The first terminal may have number 0, which is also the value if a read fails.
	other, terminal := w.openTerminal(), w.openTerminal()
	if other != nil {
		other.Close()
	}
	if terminal != nil {
		defer terminal.Close()
		w.cmd.ExtraFiles = []*os.File{terminal}
		w.cmd.SysProcAttr.Setctty, w.cmd.SysProcAttr.Ctty = true, 3
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("run from memfd: may need /proc, sysctl vm.memfd_noexec=0 and a seccomp profile that allows execveat: %w", err)
	}
	return w, nil
}

// workDir returns a directory below the root of a nested mount.
func workDir() string {
	for _, dir := range []string{"/proc/sys/kernel", "/proc"} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/"
}

// programFile returns a descriptor of the executable in memory. Its number is above the descriptors
// that a child receives before its execve.
func programFile() (int, error) {
	b, err := tinyelf.Waiter(exitCode)
	if err != nil {
		return -1, err
	}
	fd, err := unix.MemfdCreate(programName, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before 6.3 memfds are always executable
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

// openTerminal opens a terminal and keeps its master side. It returns nil if no terminal can be
// opened.
func (w *testChild) openTerminal() *os.File {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	w.ptmx = append(w.ptmx, ptmx)
	master := int(ptmx.Fd())
	if unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0) != nil {
		return nil
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return nil
	}
	return os.NewFile(fd, "terminal")
}

// begin waits until the self-test child runs.
func (w *testChild) begin(limit time.Duration) error {
	w.ready.SetReadDeadline(time.Now().Add(limit))
	_, err := w.ready.Read(make([]byte, 1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("process %d did not start within %v", w.cmd.Process.Pid, limit)
	case err != nil:
		return fmt.Errorf("process %d ended before its exec: do sysctl vm.memfd_noexec or seccomp forbid executables in memory?", w.cmd.Process.Pid)
	}
	return nil
}

// release makes the self-test child exit.
func (w *testChild) release() { w.stdin.Close() }

// status returns the wait status of the self-test child after its exit.
func (w *testChild) status() (unix.WaitStatus, error) {
	err := w.cmd.Wait()
	if w.cmd.ProcessState != nil {
		return unix.WaitStatus(w.cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
	}
	if errors.Is(err, unix.ECHILD) { // another part of this process has waited for it
		return exitCode << 8, nil
	}
	return 0, err
}

// end kills the self-test child in any state, and frees its resources.
func (w *testChild) end() {
	if w.cmd.Process != nil && w.cmd.ProcessState == nil {
		w.cmd.Process.Kill()
		w.cmd.Wait()
	}
	for _, f := range append(w.ptmx, w.stdin, w.ready) {
		f.Close()
	}
}
