package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/shellstatus"
)

// runCommand runs a command and prints its end. It also prints the ends of processes that outlive
// the command, or with -t of all its descendants. It returns the command's status.
func runCommand(ctx context.Context, o *options) (int, error) {
	cmd := exec.Command(o.args[0], o.args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if cmd.Err != nil {
		return shellstatus.OfStart(cmd.Err), fmt.Errorf("run: %w", cmd.Err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return shellstatus.CannotRun, fmt.Errorf("run: adopt orphans: %w", err)
	}
	c, err := exitsnoop.Start(cmd)
	if err != nil {
		return shellstatus.OfStart(err), fmt.Errorf("run: %w", err)
	}
	defer c.Close()
	// A signal to this process is forwarded to the command instead.
	defer context.AfterFunc(ctx, func() { c.Signal(unix.SIGTERM) })()
	if err := printExits(c, o); err != nil {
		return statusFailed, err
	}
	return shellstatus.OfWait(cmd.ProcessState.Sys().(syscall.WaitStatus)), checkUntraced(c.Store, exitsnoop.Stats{})
}

// printExits prints exits until all processes of the command have ended. Without -t it omits
// processes that exited before the command. Exits may be printed out of order.
func printExits(c *exitsnoop.Command, o *options) error {
	var end uint64 // when the command ended
	var early []exitsnoop.Exit
	for ev, err := range c.Exits(context.Background()) {
		isCommand := int(ev.Pid) == c.Cmd.Process.Pid
		switch {
		case errors.Is(err, exitsnoop.ErrLost):
			err = o.out.lost(ev.TraceID, ev.Pid)
		case err != nil:
			return err
		case isCommand:
			u, _ := c.Wait() // Wait's error repeats ProcessState
			end, err = ev.ExitedTime(), o.out.exit(ev, &u)
		case o.tree || end != 0 && ev.ExitedTime() > end:
			err = o.out.exit(ev, nil)
		case end == 0:
			early = append(early, ev)
		}
		for ; isCommand && err == nil && len(early) > 0; early = early[1:] {
			if early[0].ExitedTime() > end {
				err = o.out.exit(early[0], nil)
			}
		}
		if err != nil {
			return err
		}
		if !isCommand {
			reap(int(ev.Pid))
		}
	}
	if c.Cmd.ProcessState == nil { // the command's exit was lost
		c.Wait()
	}
	return nil
}

// reap waits for a process whose exit was reported, if it is a child of this process. The report
// comes a moment before the process is a zombie.
func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
