//go:build linux

package features

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/audit"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/procpoll"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/backends/taskstats"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tracefs"
)

// noKprobes returns the reason if the kernel has no kprobes, else "".
func noKprobes() string {
	fs, err := tracefs.Open()
	if err != nil {
		return "tracefs: " + err.Error()
	}
	defer fs.Close()
	p, err := fs.Probes()
	if err != nil {
		return "built without CONFIG_KPROBE_EVENTS: " + err.Error()
	}
	p.Close()
	return ""
}

// noEvents returns the reason if the kernel has no tracefs, else "".
func noEvents() string {
	fs, err := tracefs.Open()
	if err != nil {
		return "tracefs: " + err.Error()
	}
	fs.Close()
	return ""
}

// tracepoint looks for a field of a tracepoint's records.
func tracepoint(name, field string) func() error {
	return func() error {
		fs, err := tracefs.Open()
		if err != nil {
			return err
		}
		defer fs.Close()
		group, event, _ := strings.Cut(name, "/")
		e, err := fs.Event(group, event)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		case err != nil:
			return err
		}
		if _, ok := e.Field(field); !ok {
			return fmt.Errorf("%w: %s has no field %s", errors.ErrUnsupported, name, field)
		}
		return nil
	}
}

// newNames opens the event whose records tell of new names.
func newNames() error {
	e, err := perf.OpenComm(0)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return e.Close()
}

// noSyscallEvents returns the reason if the kernel has no tracepoints of system calls, else "".
func noSyscallEvents() string {
	fs, err := tracefs.Open()
	if err != nil {
		return "tracefs: " + err.Error()
	}
	defer fs.Close()
	if _, err := fs.ReadFile("events/syscalls/sys_exit_setsid/id"); err != nil {
		return "built without CONFIG_FTRACE_SYSCALLS"
	}
	return ""
}

// argument is the register of a function's first argument in the language of probes.
var argument = map[string]string{"amd64": "%di", "arm64": "%x0"}

// probe defines a probe that fetches something, and removes it.
func probe(fetch string) func() error {
	return func() (err error) {
		register, ok := argument[runtime.GOARCH]
		if !ok {
			return fmt.Errorf("no register is known for %s", runtime.GOARCH)
		}
		fs, err := tracefs.Open()
		if err != nil {
			return err
		}
		defer fs.Close()
		probes, err := fs.Probes()
		if err != nil {
			return err
		}
		defer probes.Close()
		name := fmt.Sprintf("features_%d/probe", os.Getpid())
		switch err := probes.Write("p:" + name + " wake_up_new_task " + strings.ReplaceAll(fetch, "%ARG", register)); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG):
			return fmt.Errorf("%w: %w: %s", errors.ErrUnsupported, err, probes.Why())
		case err != nil:
			return err
		}
		return probes.Write("-:" + name)
	}
}

// connector listens to the proc connector.
func connector() error {
	s, err := cnproc.Open(source.Options{}, cnproc.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// connectorFilter listens to exits only, and looks at who filters.
func connectorFilter() error {
	s, err := cnproc.Open(source.Options{Kinds: engine.EventExit}, cnproc.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, note := range s.Capabilities().Notes {
		if strings.Contains(note, "no event filter") {
			return fmt.Errorf("%w: %s", errors.ErrUnsupported, note)
		}
	}
	return nil
}

// records listens to the ends of threads.
func records() error {
	s, err := taskstats.Open(source.Options{}, taskstats.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// noRecords returns the reason if the kernel has no taskstats that can be read, else "".
func noRecords() string {
	if err := records(); errors.Is(err, errors.ErrUnsupported) {
		return err.Error()
	}
	return ""
}

// markedRecords listens to threads, which needs records that tell their process.
func markedRecords() error {
	s, err := taskstats.Open(source.Options{Threads: true}, taskstats.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

func pidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// endStatus has the source read the end of a process, which was waited for or not.
func endStatus(waited bool) func() error {
	return func() error {
		s, err := procpoll.Open(source.Options{}, procpoll.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		p, err := barefork.Start(new(barefork.Script).WaitFor(int(r.Fd())).Exit(3), barefork.Options{})
		if err != nil {
			return err
		}
		defer p.Free()
		read := func() (known bool, err error) {
			b := engine.NewBuffer(1 << 12)
			s.Finish()
			if err := s.Populate(ended{b, uint32(p.PID), &known}); err != nil {
				return false, err
			}
			return known, nil
		}
		_, err = read()
		if _, err2 := w.Write(make([]byte, 1)); err2 != nil {
			return err2
		}
		w.Close()
		if err2 := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		known := false
		if !waited {
			known, err = read()
		}
		if _, err2 := children.Wait(p.PID); err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		if waited {
			known, err = read()
		}
		if err == nil && !known {
			err = fmt.Errorf("the wait status is not known: %w", errors.ErrUnsupported)
		}
		return err
	}
}

// ended is a sink that notes whether the wait status of a process is known.
type ended struct {
	*engine.Buffer
	pid   uint32
	known *bool
}

func (e ended) Insert(ev *engine.RawEvent) {
	if ev.PID == e.pid && ev.Kind == engine.KindExit {
		*e.known = ev.Task.Known.Has(engine.FieldExit)
	}
	e.Buffer.Insert(ev)
}

// auditRules adds the rules of audit, in a guest where it is enabled.
func auditRules() error {
	if os.Getenv("QUARK_INITRAMFS") != "1" {
		return fmt.Errorf("rules are added in guests only: %w", errors.ErrUnsupported)
	}
	s, err := audit.Open(source.Options{}, audit.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// noAudit returns the reason if the kernel was built or booted without audit, or it is not enabled,
// else "".
func noAudit() string {
	err := auditRules()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return err.Error()
	}
	return ""
}
