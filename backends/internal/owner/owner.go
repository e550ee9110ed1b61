// Package owner names the kernel objects that a source installs. The objects outlive the source's
// process. The names show a later source which objects a killed process has left.
package owner

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// Owner is the process that installed an object. The start time distinguishes the process from a
// later one with the same pid.
type Owner struct {
	pid   int
	start uint64 // clock ticks since boot
}

const prefix = "quark"

// Name returns the name for an object of one of the owner's sources. number distinguishes the
// sources.
func (o Owner) Name(number uint32) string {
	return fmt.Sprintf("%s_%d_%d_%d", prefix, o.pid, o.start, number)
}

// Parse returns the owner and the number in a name that Name has returned.
func Parse(name string) (o Owner, number uint32, ok bool) {
	_, err := fmt.Sscanf(name, prefix+"_%d_%d_%d", &o.pid, &o.start, &number)
	return o, number, err == nil && o.pid > 0 && o.Name(number) == name
}

// Self returns this process.
func Self() (Owner, error) {
	pid := os.Getpid()
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Owner{}, fmt.Errorf("find own start time: %w: mount proc on /proc", err)
	}
	return Owner{pid, st.Start / proctext.Tick}, nil
}

// State is the state of an owner.
type State uint8

// The states of an owner.
const (
	Alive  State = iota // perhaps: without CAP_SYS_PTRACE, hidepid hides processes
	Ending              // killed, but not all its descriptors are closed yet
	Gone                // has exited; it may be a zombie without a waiting parent
)

// State returns the state of the process.
func (o Owner) State() State {
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", o.pid))
	switch {
	case errors.Is(err, os.ErrNotExist) && errors.Is(unix.Kill(o.pid, 0), unix.ESRCH):
		return Gone
	case err != nil:
		return Alive
	case st.Start/proctext.Tick != o.start, st.State == 'Z' && st.Threads <= 1:
		return Gone
	case st.Ending():
		return Ending
	}
	return Alive
}
