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

// runCommand runs a command and prints how it ended. Processes that the command leaves behind
// become children of this one, and runCommand waits for them and prints their ends too.
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
	pid, id, err := startTraced(s, path, o.args)
	if err != nil {
		return statusCannotRun, err
	}
	f := &family{store: s, o: o, traced: map[int]uint64{pid: id}}
	return f.watch(ctx)
}

// startTraced starts the process of a command and lets it execute after tracing has begun.
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
		w.Close() // the process ends then
		syscall.Wait4(p.Pid, nil, 0, nil)
		return 0, 0, err
	}
	return p.Pid, id, nil
}

// family is a command and the processes that it has left behind.
type family struct {
	store  *exitsnoop.Store
	o      *options
	traced map[int]uint64 // children that are traced, by pid
	status int
}

// watch prints ends until there is no child. It returns the status of the last one.
func (f *family) watch(ctx context.Context) (int, error) {
	// A signal is passed on to the command, and does not end watch.
	defer context.AfterFunc(ctx, f.interrupt)()
	for {
		// Without reaping, so that no other process gets the pid until it is traced.
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

// adopt begins to trace new children.
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
		case !errors.Is(err, exitsnoop.ErrNoProcess): // one that has ended is for reap
			return err
		}
	}
	return nil
}

// reap reaps one child that has ended, and prints how. If it ended before it was traced, its wait
// status is recorded here.
func (f *family) reap() error {
	var w syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &w, unix.WNOHANG, nil)
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

// interrupt sends SIGTERM to the children.
func (f *family) interrupt() {
	pids, _ := children.Of(os.Getpid())
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGTERM)
	}
}
