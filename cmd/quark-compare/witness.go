package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// witness is one backend and what it saw.
type witness struct {
	q     *quark.Queue
	seen  map[uint32]*account
	err   error
	stats quark.Stats
}

// account is what a witness saw of one process.
type account struct {
	events []engine.Events
	last   *quark.Process
}

func newWitness(q *quark.Queue) *witness {
	return &witness{q: q, seen: make(map[uint32]*account)}
}

// command is one shell command and how it really ended.
type command struct {
	line string
	pid  uint32
	wait syscall.WaitStatus
	err  error
}

// commands are those of the command line or, if there are none, a few that show
// where the backends differ.
func commands(lines []string) (c []*command) {
	if len(lines) == 0 {
		lines = []string{"true", "exit 3", "kill -TERM $$", "cd /tmp && exec sleep 0.05", "exec sh -c 'exec sh -c true'"}
	}
	for _, l := range lines {
		c = append(c, &command{line: l})
	}
	return c
}

// observe runs the commands while all witnesses watch.
func observe(witnesses []*witness, cmds []*command) ([]*command, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	ran := make(chan struct{}) // closed when the pids are known
	var all sync.WaitGroup
	for _, w := range witnesses {
		all.Go(func() { w.watch(ctx, ran, cmds) })
	}
	for _, c := range cmds {
		c.run()
	}
	close(ran)
	all.Wait()
	var errs []error
	for _, w := range witnesses {
		errs = append(errs, w.err)
	}
	for _, c := range cmds {
		errs = append(errs, c.err)
	}
	return cmds, errors.Join(errs...)
}

func (c *command) run() {
	cmd := exec.Command("/bin/sh", "-c", c.line)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		c.err = fmt.Errorf("run %q: %w", c.line, err)
		return
	}
	c.pid = uint32(cmd.Process.Pid)
	c.wait = cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// watch notes all events until the end of every command has been seen.
func (w *witness) watch(ctx context.Context, ran <-chan struct{}, cmds []*command) {
	defer func() { w.err = errors.Join(w.err, w.q.Close()) }()
	go func() {
		<-ran
		w.q.Wake()
	}()
	defer context.AfterFunc(ctx, w.q.Wake)()
	for ctx.Err() == nil && !w.complete(ran, cmds) {
		ev, err := w.q.Get()
		switch {
		case err == nil:
			w.note(ev)
		case errors.Is(err, quark.ErrNothing):
			w.err = w.q.Block(-1)
		case !errors.Is(err, quark.ErrFiltered):
			w.err = err
		}
		if w.err != nil {
			return
		}
	}
	w.stats, w.err = w.q.Stats()
}

func (w *witness) note(ev *quark.Event) {
	a := w.seen[ev.Process.PID]
	if a == nil || ev.Events&engine.EventFork != 0 {
		a = new(account)
		w.seen[ev.Process.PID] = a
	}
	a.events = append(a.events, ev.Events)
	a.last = ev.Process.Clone()
}

func (w *witness) complete(ran <-chan struct{}, cmds []*command) bool {
	select {
	case <-ran:
	default:
		return false
	}
	for _, c := range cmds {
		if a := w.seen[c.pid]; a == nil || !a.last.Exited {
			return false
		}
	}
	return true
}

// describe returns what the witness says of a process, a line per attribute;
// "?" is what it does not know.
func (a *account) describe() map[string]string {
	d := make(map[string]string)
	if a == nil {
		return d
	}
	var names []string
	for _, e := range a.events {
		names = append(names, e.String())
	}
	p := a.last
	known := func(f engine.Field, format string, v ...any) string {
		if !p.Known.Has(f) {
			return "?"
		}
		return fmt.Sprintf(format, v...)
	}
	var args []string
	for arg := range p.Args() {
		args = append(args, string(arg))
	}
	d["events"] = strings.Join(names, ", ")
	d["comm"] = known(engine.FieldComm, "%s", p.Comm)
	d["filename"] = known(engine.FieldFilename, "%s", p.Filename)
	d["cmdline"] = known(engine.FieldCmdline, "%q", args)
	d["cwd"] = known(engine.FieldCwd, "%s", p.Cwd)
	d["ppid"] = known(engine.FieldPPID, "%d", p.PPID)
	d["uid, gid"] = known(engine.FieldUIDs, "%d", p.Cred.UID) + ", " + known(engine.FieldGIDs, "%d", p.Cred.GID)
	d["caps"] = known(engine.FieldCaps, "%x", p.Caps.Effective)
	d["mnt ns"] = known(engine.FieldMntNS, "%d", p.NS.Mnt)
	d["cgroup"] = known(engine.FieldCgroup, "%s", p.Cgroup)
	d["started"] = known(engine.FieldStart, "%d ns", p.Start)
	d["ended"] = known(engine.FieldExit, "%s", status(syscall.WaitStatus(p.Task.Exit.WaitStatus)))
	return d
}

var attributes = []string{"events", "comm", "filename", "cmdline", "cwd", "ppid", "uid, gid", "caps", "mnt ns", "cgroup", "started", "ended"}

func status(w syscall.WaitStatus) string {
	switch {
	case w.Signaled() && w.CoreDump():
		return fmt.Sprintf("signal %d, core dumped", w.Signal())
	case w.Signaled():
		return fmt.Sprintf("signal %d", w.Signal())
	}
	return fmt.Sprintf("exit code %d", w.ExitStatus())
}

// truth is what is known of a command from having run it.
func (c *command) truth() map[string]string {
	return map[string]string{"ppid": fmt.Sprint(os.Getpid()), "ended": status(c.wait)}
}
