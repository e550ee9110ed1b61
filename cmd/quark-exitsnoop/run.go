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
)

// Exit statuses of a shell for a command that cannot run.
const (
	statusCannotRun = 126
	statusNotFound  = 127
)

// runCommand runs a command, and prints its end and the ends of processes that it leaves behind, or
// with -t of all its descendants.
func runCommand(ctx context.Context, o *options) (int, error) {
	path, err := exec.LookPath(o.args[0])
	if err != nil {
		status := statusCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			status = statusNotFound
		}
		return status, fmt.Errorf("run: %w", err)
	}
	// A private store, without pins.
	s, err := exitsnoop.NewStoreFromAttach()
	if err != nil {
		return statusCannotRun, err
	}
	defer s.Close()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return statusCannotRun, fmt.Errorf("run: adopt orphans: %w", err)
	}
	command, tree, err := startTraced(s, path, o.args)
	if err != nil {
		return statusCannotRun, err
	}
	// A signal is forwarded, and does not end this process.
	defer context.AfterFunc(ctx, func() { terminate(s) })()
	f := &family{store: s, o: o, command: command, ended: map[uint64]uint64{}}
	if err := f.watch(tree); err != nil {
		return statusFailed, err
	}
	return f.status, untraced(s, exitsnoop.Stats{})
}

// startTraced starts the process of a command. It traces this process's tree meanwhile, so that the
// command is traced before it can run.
func startTraced(s *exitsnoop.Store, path string, argv []string) (pid int, tree uint64, err error) {
	self := uint32(os.Getpid())
	if tree, err = s.TraceTree(self, exitsnoop.TreeOptions{}); err != nil {
		return 0, 0, err
	}
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, 0, fmt.Errorf("run: %w", err)
	}
	return p.Pid, tree, s.DeleteTracingTask(self)
}

// family is a command and its descendants.
type family struct {
	store   *exitsnoop.Store
	o       *options
	command int
	ended   map[uint64]uint64 // time of the end, by trace id
	last    uint64            // time of the last printed end
	status  int               // status of the command
}

// watch prints ends until all processes have ended.
func (f *family) watch(tree uint64) error {
	for ev, err := range f.store.Events(context.Background(), tree) {
		reap(int(ev.Pid))
		switch {
		case ev.Parent == tree && int(ev.Pid) != f.command:
			// os.StartProcess has tried all that the kernel can do.
		case errors.Is(err, exitsnoop.ErrLost):
			err = f.o.out.lost(ev.TraceID, ev.Pid)
		case err == nil && (f.o.tree || f.leftBehind(ev)):
			if ev.ExittedTime >= f.last {
				f.last, f.status = ev.ExittedTime, shellStatus(ev.WaitStatus())
			}
			err = f.o.out.exit(ev)
		}
		f.ended[ev.TraceID] = ev.ExittedTime
		if err == nil {
			err = f.store.DeleteExitedEvent(ev.TraceID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leftBehind reports whether a process is the command, or outlived its parent.
func (f *family) leftBehind(ev exitsnoop.Exit) bool {
	at, ended := f.ended[ev.Parent]
	if !ended && int(ev.Pid) != f.command {
		st, err := f.store.GetExitedEvent(ev.Parent)
		if err != nil {
			return !errors.Is(err, exitsnoop.ErrNotEnded)
		}
		at = st.ExittedTime
	}
	return at < ev.ExittedTime
}

// reap reaps a process with a reported end, if it is a child of this one, and then all other ended
// children. The report comes a moment before the end is complete; without the wait the process
// could be left to its adopter.
func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			break
		}
	}
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// terminate sends SIGTERM to all traced processes.
func terminate(s *exitsnoop.Store) {
	tasks, _ := s.Tasks()
	for _, t := range tasks {
		unix.Kill(int(t.Pid), unix.SIGTERM)
	}
}
