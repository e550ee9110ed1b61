// Package meter runs a monitor that only counts events as a separate process, and measures its
// cost.
package meter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// monitorEnv is the environment variable that turns a program that calls Main into a monitor. Its
// value is the name of a monitor, as in [Start].
const monitorEnv = "QUARK_FIDELITY_MONITOR"

// FailingExits is the suffix of a monitor of the exits with another status than 0 alone.
const FailingExits = "nonzero"

// printFlag is the suffix of a monitor that prints.
const printFlag = "print"

// Variable returns the variable of the environment, as NAME=value, of a program that is the monitor
// of this name, see [Start]. With the suffix "+print" it prints each event.
func Variable(what string) string { return monitorEnv + "=" + what }

// Main runs the monitor if this process was started as one, and does not return then. A program
// that uses this package calls it first.
func Main() {
	v := os.Getenv(monitorEnv)
	if v == "" {
		return
	}
	name, flags, _ := strings.Cut(v, "+")
	if err := monitor(name, flags); err != nil {
		if flags == printFlag {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		json.NewEncoder(os.Stdout).Encode(Usage{Error: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

// Usage is the cost of a monitor since it was ready, and its peak RSS.
type Usage struct {
	CPU      time.Duration `json:"cpu"`
	RSS      int64         `json:"rss_kib"`
	Raw      uint64        `json:"raw"`
	Lost     uint64        `json:"lost"`
	Programs time.Duration `json:"programs"` // run time of its eBPF programs
	Error    string        `json:"error,omitempty"`
	Silent   bool          `json:"-"` // the monitor does not count what it loses
	// Judge is what reading and translating its output took of this process.
	Judge time.Duration `json:"-"`
}

// monitor counts until its standard input ends.
func monitor(name, flags string) error {
	stats := flags == "stats"
	opts := quark.Options{Strict: true}
	switch flags {
	case "", "stats", printFlag:
	case "count":
		opts.CNProc.Enrich = cnproc.EnrichNone
	case FailingExits:
		opts.CNProc.Enrich = cnproc.EnrichNone
		opts.Kinds, opts.Exits = engine.EventExit, quark.ExitsNonzero
	default:
		opts.CNProc.Enrich = cnproc.EnrichNone
		var err error
		if opts.Kinds, err = quark.ParseKinds(flags); err != nil {
			return err
		}
	}
	set, err := backends.Parse(name)
	if err != nil {
		return err
	}
	if flags == printFlag {
		return printEvents(name, set)
	}
	if stats {
		closer, err := CountRunTime()
		if err != nil {
			return err
		}
		defer closer.Close()
	}
	before, err := loadedPrograms()
	if err != nil && stats {
		return err
	}
	opts.Backends = set
	q, err := quark.Open(opts)
	if err != nil {
		return err
	}
	own := before.since()
	debug.FreeOSMemory()
	m := &meter{q: q, own: own, stats: stats}
	err = m.run()
	return errors.Join(err, q.Close())
}

type meter struct {
	q     *quark.Queue
	own   Programs
	stats bool
}

func (m *meter) run() error {
	if err := m.report(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := m.count(ctx); err != nil {
		return err
	}
	if err := m.q.Drain(); err != nil {
		return err
	}
	// This ends when all is delivered.
	if err := m.count(context.Background()); err != nil {
		return err
	}
	return m.report()
}

func (m *meter) count(ctx context.Context) error {
	for _, err := range m.q.Events(ctx) {
		if err != nil {
			return err
		}
	}
	return nil
}

// report prints the usage so far as a line of JSON.
func (m *meter) report() error {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return err
	}
	s, err := m.q.Stats()
	if err != nil {
		return err
	}
	u := Usage{CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), RSS: Peak(os.Getpid()), Raw: s.Insertions, Lost: s.Lost()}
	if m.stats {
		u.Programs = m.own.RunTime()
	}
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// Peak returns a process's peak memory in KiB. It does not use ru_maxrss, which starts from the
// memory of the program that executed this one.
func Peak(pid int) (kib int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	fmt.Sscan(after, &kib)
	return kib
}

// Under runs a storm under a monitor, which start starts and which stops when the function that it
// returns is called, and returns how long the storm took.
func Under(s scenario.Storm, patience time.Duration, start func() (stop func() (Usage, error), err error)) (
	took time.Duration, u Usage, err error,
) {
	var stop func() (Usage, error)
	took, err = s.Time(patience, func() (err error) {
		stop, err = start()
		return err
	})
	if stop != nil {
		var stopErr error
		u, stopErr = stop()
		err = errors.Join(err, stopErr)
	}
	return took, u, err
}

// metered is a running monitor.
type metered struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	first Usage
}

// Start starts a monitor, waits until it is ready and returns what ends it. what is the name of a
// backend. The suffix "+stats" lets the kernel measure the run time of its eBPF programs; "+count"
// keeps the proc connector from reading /proc; "+FORK,EXIT" does so, too, and selects these kinds
// of events.
func Start(what string) (stop func() (Usage, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &metered{cmd: exec.Command(self)}
	m.cmd.Env = append(os.Environ(), Variable(what))
	m.cmd.Stderr = os.Stderr
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a monitor: %w", err)
	}
	if m.first, err = m.read(); err != nil {
		m.in.Close()
		m.cmd.Wait() // its exit status adds nothing to err
		return nil, err
	}
	return m.stop, nil
}

func (m *metered) read() (u Usage, err error) {
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("read the monitor's report: %w", err)
	}
	if err = json.Unmarshal(line, &u); err == nil && u.Error != "" {
		err = errors.New(u.Error)
	}
	return u, err
}

// stop ends the monitor and returns its usage.
func (m *metered) stop() (u Usage, err error) {
	m.in.Close()
	u, err = m.read()
	u.CPU -= m.first.CPU
	u.Raw -= m.first.Raw
	u.Programs -= m.first.Programs
	return u, errors.Join(err, m.cmd.Wait())
}
