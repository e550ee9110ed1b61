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
	"github.com/quark-linux/quark/internal/children"
)

// commandEnv is set in a process that is to become the command of run as soon as
// a byte can be read from descriptor gateFD. Its arguments are the path and the arguments.
const (
	commandEnv = "QUARK_EXITSNOOP_COMMAND"
	gateFD     = 3
)

// The exit statuses of a shell for a command that cannot be run.
const (
	statusCannotRun = 126
	statusNotFound  = 127
)

// becomeCommand does not return in such a process.
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

// runCommand runs a command and reports its end, and then those of the processes
// that it has left behind: they become children of this one.
func runCommand(ctx context.Context, o *options) (int, error) {
	path, err := exec.LookPath(o.args[0])
	if err != nil {
		return statusNotFound, fmt.Errorf("run: %w", err)
	}
	// Its own, not the pinned one: nothing is to be left here.
	s, err := exitsnoop.NewStoreFromAttach()
	if err != nil {
		return statusCannotRun, err
	}
	defer s.Close()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return statusCannotRun, fmt.Errorf("run: adopt orphans: %w", err)
	}
	pid, id, err := startTraced(s, path, o.args)
	if err != nil {
		return statusCannotRun, err
	}
	f := &family{store: s, o: o, traced: map[int]uint64{pid: id}}
	return f.watch(ctx)
}

// startTraced starts a command that is traced before it executes.
func startTraced(s *exitsnoop.Store, path string, argv []string) (pid int, id uint64, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer w.Close()
	p, err := os.StartProcess("/proc/self/exe", argv, &os.ProcAttr{
		Env:   append(os.Environ(), commandEnv+"="+path),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, r},
	})
	r.Close()
	if err != nil {
		return 0, 0, fmt.Errorf("run: %w", err)
	}
	defer p.Release()
	if id, err = s.TraceProcess(uint32(p.Pid)); err == nil {
		_, err = w.Write([]byte{1})
	}
	if err != nil {
		w.Close() // which ends it
		unix.Wait4(p.Pid, nil, 0, nil)
		return 0, 0, err
	}
	return p.Pid, id, nil
}

// family is a command and what it has left behind.
type family struct {
	store  *exitsnoop.Store
	o      *options
	traced map[int]uint64 // children that are traced, by pid
	status int
}

// watch reports ends until there is no child any more. The status is that of the
// one that ended last.
func (f *family) watch(ctx context.Context) (int, error) {
	// A signal to us is for the command; it does not end the watch.
	defer context.AfterFunc(ctx, f.interrupt)()
	for {
		// Wait without reaping, so that the pid stays its own meanwhile.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return f.status, nil
		case err != nil:
			return statusFailed, fmt.Errorf("wait: %w", err)
		}
		if err := f.adopt(); err != nil {
			return statusFailed, err
		}
		if err := f.reap(); err != nil {
			return statusFailed, err
		}
	}
}

// adopt traces the children that came since.
func (f *family) adopt() error {
	pids, _ := children.Of(os.Getpid())
	for _, pid := range pids {
		if f.traced[pid] != 0 {
			continue
		}
		id, err := f.store.TraceProcess(uint32(pid))
		switch {
		case err == nil:
			f.traced[pid] = id
		case !errors.Is(err, exitsnoop.ErrNoProcess): // one that has ended is reaped below
			return err
		}
	}
	return nil
}

// reap reports one child that has ended. One that ended before it could be traced
// is put on record by its wait status.
func (f *family) reap() error {
	var w unix.WaitStatus
	pid, err := unix.Wait4(-1, &w, unix.WNOHANG, nil)
	if err != nil || pid <= 0 {
		return nil
	}
	id, traced := f.traced[pid]
	delete(f.traced, pid)
	if !traced {
		id = 1
		if err := f.store.ExitedEventFromWaitStatus(id, uint32(pid), uint32(w)); err != nil {
			return err
		}
	}
	st, err := f.store.GetExitedEvent(id)
	if err != nil {
		return err
	}
	f.status = shellStatus(st.WaitStatus())
	shown := id
	if !traced {
		shown = 0
	}
	return errors.Join(f.o.out.exit(shown, st), f.store.DeleteExitedEvent(id))
}

// interrupt passes the end of the context on.
func (f *family) interrupt() {
	pids, _ := children.Of(os.Getpid())
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGTERM)
	}
}
