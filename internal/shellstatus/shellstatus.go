// Package shellstatus returns the exit statuses that a shell has for a command.
package shellstatus

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// CannotRun is the status of a command that exists and cannot run.
const CannotRun = 126

// OfStart returns the status of a command that did not start.
func OfStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return CannotRun
}

// OfWait returns the status of a command that has ended.
func OfWait(w syscall.WaitStatus) int {
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}
