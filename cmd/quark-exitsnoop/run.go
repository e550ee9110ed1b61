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

// commandEnv is set in the process that will become the command of run: it is the path to execute.
// The process waits for a byte from descriptor gateFD first.
const (
	commandEnv = "QUARK_EXITSNOOP_COMMAND"
	gateFD     = 3
)

// The exit statuses of a shell for a command that cannot be run.
const (
	statusCannotRun = 126
	statusNotFound  = 127
)

// becomeCommand executes the command in a process with commandEnv, and returns in others.
func becomeCommand() {
	path, is := os.LookupEnv(commandEnv)
	if !is {
		return
	}
	os.Unsetenv(commandEnv)
	unix.CloseOnExec(gateFD)
	if n, _ := unix.Read(gateFD, make([]byte, 1)); n != 1 {
		os.Exit(statusCannotRun) // nobody traces it: do not run
	}
	err := syscall.Exec(path, os.Args, os.Environ())
	fmt.Fprintf(os.Stderr, "quark-exitsnoop: run %s: %v\n", path, err)
	os.Exit(statusCannotRun)
}

// runCommand runs a command, prints how it ended, and waits for the processes that it leaves behind
// and prints their ends too, or with -t those of all its descendants.
func runCommand(ctx context.Context, o *options) (int, error) {
	path, err := exec.LookPath(o.args[0])
	if err != nil {
		return statusNotFound, fmt.Errorf("run: %w", err)
	}
	// A private store, so that nothing stays pinned.
	s, err := exitsnoop.NewStoreFromAttach()
	if err != nil {
		return statusCannotRun, err
	}
	defer s.Close()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return statusCannotRun, fmt.Errorf("run: adopt orphans: %w", err)
	}
	id, err := startTraced(s, path, o.args)
	if err != nil {
		return statusCannotRun, err
	}
	// A signal is passed on, and does not end this process.
	defer context.AfterFunc(ctx, func() { terminate(s) })()
	f := &family{store: s, o: o, ended: map[uint64]uint64{}}
	if err := f.watch(id); err != nil {
		return statusFailed, err
	}
	return f.status, untraced(s, exitsnoop.Stats{})
}

// startTraced starts the process of a command and lets it execute after tracing has begun.
func startTraced(s *exitsnoop.Store, path string, argv []string) (id uint64, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer w.Close()
	p, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   append(os.Environ(), commandEnv+"="+path),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, r},
	})
	r.Close()
	if err != nil {
		return 0, fmt.Errorf("run: %w", err)
	}
	defer p.Release()
	if id, err = s.TraceTree(uint32(p.Pid), exitsnoop.TreeOptions{}); err == nil {
		_, err = w.Write([]byte{1})
	}
	if err != nil {
		w.Close() // the process ends then
		syscall.Wait4(p.Pid, nil, 0, nil)
		return 0, err
	}
	return id, nil
}

// family is a command and its descendants.
type family struct {
	store  *exitsnoop.Store
	o      *options
	ended  map[uint64]uint64 // when, by trace id
	last   uint64            // when the last one ended that was printed
	status int               // its status
}

// watch prints ends until all have ended.
func (f *family) watch(id uint64) error {
	for ev, err := range f.store.Events(context.Background(), id) {
		reap()
		switch {
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

// leftBehind reports whether a process ended later than the one that forked it, as the command did.
func (f *family) leftBehind(ev exitsnoop.Exit) bool {
	at, ended := f.ended[ev.Parent]
	if !ended && ev.Parent != 0 {
		st, err := f.store.GetExitedEvent(ev.Parent)
		if err != nil {
			return !errors.Is(err, exitsnoop.ErrNotEnded)
		}
		at = st.ExittedTime
	}
	return at < ev.ExittedTime
}

// reap reaps children that have ended.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// terminate sends SIGTERM to all that is traced.
func terminate(s *exitsnoop.Store) {
	tasks, _ := s.Tasks()
	for _, t := range tasks {
		unix.Kill(int(t.Pid), unix.SIGTERM)
	}
}
