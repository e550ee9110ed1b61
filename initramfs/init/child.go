//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/shellstatus"
)

const commandPath = "/bin"

// environment returns the command's environment.
func environment(opts options) []string {
	env := []string{
		"PATH=" + commandPath,
		"HOME=/",
		"TERM=dumb",
		"TMPDIR=/tmp",
		"QUARK_INITRAMFS=1",
		"QUARK_RESULTS=/dev/" + opts.results,
	}
	return append(env, opts.env...)
}

// runCommand runs the command in its own session. Until it ends it also reaps orphans, which is pid
// 1's duty.
func runCommand(opts options) record.End {
	if len(opts.command) == 0 || opts.command[0] == "" {
		return record.End{Status: statusInit, Error: "no command on the kernel command line: it comes after --"}
	}
	path := opts.command[0]
	if !strings.Contains(path, "/") {
		path = commandPath + "/" + path
	}
	stdin, attr := os.DevNull, &syscall.SysProcAttr{Setsid: true}
	if opts.stdin != "" {
		stdin, attr.Setctty = "/dev/"+opts.stdin, true // Ctty 0: standard input
	}
	in, err := os.OpenFile(stdin, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return record.End{Status: statusInit, Error: err.Error()}
	}
	defer in.Close()

	start := time.Now()
	// os/exec is unsuitable: its Wait and the wait for orphans would reap each other's
	// children.
	pid, err := syscall.ForkExec(path, opts.command, &syscall.ProcAttr{
		Dir:   "/",
		Env:   environment(opts),
		Files: []uintptr{in.Fd(), 1, 2},
		Sys:   attr,
	})
	if err != nil {
		return notStarted(path, err)
	}
	status, err := reapUntil(pid, wait)
	if err != nil {
		return record.End{Status: statusInit, Error: fmt.Sprintf("wait for %s: %v", path, err)}
	}
	e := ended(status)
	e.DurationMS = time.Since(start).Milliseconds()
	return e
}

// notStarted returns the end record of a command that could not be executed, with the exit status
// that a shell would return.
func notStarted(path string, err error) record.End {
	return record.End{Status: shellstatus.OfStart(err), Error: fmt.Sprintf("run %s: %v", path, err)}
}

// ended returns the end record for a wait status.
func ended(status unix.WaitStatus) record.End {
	e := record.End{Status: shellstatus.OfWait(syscall.WaitStatus(status))}
	if status.Signaled() {
		e.Signal, e.CoreDumped = int(status.Signal()), status.CoreDump()
	}
	return e
}

func wait() (int, unix.WaitStatus, error) {
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, 0, nil)
	return pid, status, err
}

// reapUntil reaps children until pid is among them and returns its wait status.
func reapUntil(pid int, wait func() (int, unix.WaitStatus, error)) (unix.WaitStatus, error) {
	for {
		switch got, status, err := wait(); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case got == pid:
			return status, nil
		}
	}
}
