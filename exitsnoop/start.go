package exitsnoop

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is a started command with a traced tree: the command and all its descendants.
type Command struct {
	Cmd   *exec.Cmd
	Store *Store // of the tree alone, without pins
	tree  uint64
	own   uint64 // the caller's largest resident memory at the start, in bytes
}

// Start starts a command, and traces it and all its descendants before they can run. c.Exits yields
// the exits in the tree, and c.Wait waits for the command itself. Start no other process until
// Start returns, because its children would be traced too.
func Start(cmd *exec.Cmd) (c *Command, err error) {
	c = &Command{Cmd: cmd}
	if c.Store, err = NewStoreFromAttach(); err != nil {
		return nil, err
	}
	// A child of a traced process is traced from its fork on.
	self := uint32(os.Getpid())
	if c.tree, err = c.Store.TraceTree(self, TreeOptions{}); err == nil {
		err = errors.Join(cmd.Start(), c.Store.DeleteTracingTask(self))
		var r syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		c.own = uint64(r.Maxrss) << 10
	}
	if err == nil {
		return c, nil
	}
	if cmd.Process != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return nil, errors.Join(err, c.Store.Close())
}

// Exits yields the exits of the command and its descendants as [Store.Events] does, and deletes
// each. It ends after the last one.
func (c *Command) Exits(ctx context.Context) iter.Seq2[Exit, error] {
	return func(yield func(Exit, error) bool) {
		for ev, err := range c.Store.Events(ctx, c.tree) {
			// Packages os and os/exec fork once to probe the kernel.
			own := ev.Parent != c.tree || int(ev.Pid) == c.Cmd.Process.Pid
			if own && !yield(ev, err) {
				return
			}
			if ev.TraceID == 0 {
				return // the error of the kernel is the last one
			}
			if err := c.Store.DeleteExitedEvent(ev.TraceID); err != nil {
				yield(Exit{}, err)
				return
			}
		}
	}
}

// Usage is the resource usage of the command, and of descendants for which their parents waited.
type Usage struct {
	CPU time.Duration // in user mode and in the kernel
	// PeakRSS is the largest resident memory of a process, in bytes. It is 0 if it is unknown:
	// the kernel counts the caller's memory until the execve, and the command used less.
	PeakRSS uint64
}

// Wait waits for the command as [exec.Cmd.Wait] does, and returns its usage. Descendants may still
// run.
func (c *Command) Wait() (Usage, error) {
	err := c.Cmd.Wait()
	state := c.Cmd.ProcessState
	if state == nil {
		return Usage{}, err
	}
	u := Usage{CPU: state.UserTime() + state.SystemTime()}
	if r, ok := state.SysUsage().(*syscall.Rusage); ok && uint64(r.Maxrss)<<10 > c.own {
		u.PeakRSS = uint64(r.Maxrss) << 10
	}
	return u, err
}

// Signal sends a signal to all processes of the tree.
func (c *Command) Signal(s syscall.Signal) error {
	tasks, err := c.Store.Tasks()
	for _, t := range tasks {
		if e := syscall.Kill(int(t.Pid), s); e != nil && e != syscall.ESRCH {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Close stops the tracing. It does not end processes.
func (c *Command) Close() error { return c.Store.Close() }
