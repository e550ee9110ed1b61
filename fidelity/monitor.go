package fidelity

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

	cebpf "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// monitorEnv makes a program that calls Main a monitor, which only counts:
// "ebpf", or "ebpf+stats" to have the kernel measure the time in its programs.
const monitorEnv = "QUARK_FIDELITY_MONITOR"

// Main does not return if this process was started as a part of the suite. A
// program that uses this package calls it first.
func Main() {
	scenario.Main()
	v := os.Getenv(monitorEnv)
	if v == "" {
		return
	}
	name, flags, _ := strings.Cut(v, "+")
	if err := monitor(name, flags == "stats"); err != nil {
		fmt.Fprintf(os.Stderr, "monitor %s: %v\n", v, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// usage is what a monitor says when it begins and when it ends.
type usage struct {
	CPU      time.Duration `json:"cpu"`
	RSS      int64         `json:"rss_kib"` // the peak
	Raw      uint64        `json:"raw"`
	Lost     uint64        `json:"lost"`
	Programs time.Duration `json:"programs"` // time in its eBPF programs
}

// monitor counts until its standard input ends.
func monitor(name string, stats bool) error {
	set, err := backends.Parse(name)
	if err != nil {
		return err
	}
	if stats {
		closer, err := cebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
		if err != nil {
			return fmt.Errorf("let the kernel measure eBPF programs: %w", err)
		}
		defer closer.Close()
	}
	before, err := programs()
	if err != nil && stats {
		return err
	}
	q, err := quark.Open(quark.Options{Backends: set, Strict: true})
	if err != nil {
		return err
	}
	after, _ := programs()
	var own []cebpf.ProgramID
	for id := range after {
		if !before[id] {
			own = append(own, id)
		}
	}
	debug.FreeOSMemory()
	m := &meter{q: q, own: own, stats: stats}
	err = m.run()
	return errors.Join(err, q.Close())
}

type meter struct {
	q     *quark.Queue
	own   []cebpf.ProgramID
	stats bool
}

func (m *meter) run() error {
	if err := m.say(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for _, err := range m.q.Events(ctx) {
		if err != nil {
			return err
		}
	}
	if err := m.q.Drain(); err != nil {
		return err
	}
	for {
		if _, err := m.q.Get(); errors.Is(err, quark.ErrNothing) {
			return m.say()
		} else if err != nil && !errors.Is(err, quark.ErrFiltered) {
			return err
		}
	}
}

func (m *meter) say() error {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return err
	}
	s, err := m.q.Stats()
	if err != nil {
		return err
	}
	u := usage{CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), RSS: peak(), Raw: s.Insertions, Lost: s.Lost()}
	if m.stats {
		u.Programs = runTime(m.own)
	}
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// peak is the most memory that this process has had, in KiB. Not ru_maxrss: that of
// a program begins with what the process had that executed it.
func peak() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int64
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	fmt.Sscan(after, &kib)
	return kib
}

// programs are the eBPF programs that are loaded.
func programs() (map[cebpf.ProgramID]bool, error) {
	set := make(map[cebpf.ProgramID]bool)
	for id := cebpf.ProgramID(0); ; {
		next, err := cebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return set, nil
		}
		if err != nil {
			return set, fmt.Errorf("list eBPF programs: %w", err)
		}
		id = next
		set[id] = true
	}
}

func runTime(ids []cebpf.ProgramID) (sum time.Duration) {
	for _, id := range ids {
		p, err := cebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		if s, err := p.Stats(); err == nil {
			sum += s.Runtime
		}
		p.Close()
	}
	return sum
}

// metered is a monitor in its course.
type metered struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	first usage
}

func startMonitor(what string) (*metered, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &metered{cmd: exec.Command(self)}
	m.cmd.Env = append(os.Environ(), monitorEnv+"="+what)
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
		return nil, errors.Join(err, m.cmd.Wait())
	}
	return m, nil
}

func (m *metered) read() (u usage, err error) {
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("the monitor says nothing: %w", err)
	}
	return u, json.Unmarshal(line, &u)
}

// stop ends the monitor and returns what it used since it was ready.
func (m *metered) stop() (u usage, err error) {
	m.in.Close()
	u, err = m.read()
	u.CPU -= m.first.CPU
	u.Raw -= m.first.Raw
	u.Programs -= m.first.Programs
	return u, errors.Join(err, m.cmd.Wait())
}
