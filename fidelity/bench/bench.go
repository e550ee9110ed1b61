// Package bench compares quark's backends and other monitors under the same loads: what they cost,
// how many events they see, and what they report as lost.
//
// [Measure] gives each participant a turn in each repeat. A turn starts the monitor, runs all loads
// under it and makes a [Row] of each. Rows are written as lines of JSON, and [Read] reads them.
// [Print] and [Page] show the medians of the repeats. docs/benchmark.md describes the method.
package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Options are the options of a benchmark. The zero value measures all backends.
type Options struct {
	// Backends are the participating backends of quark. Zero means all if Monitors is empty,
	// else none.
	Backends backends.Set
	// Monitors are other programs that take part.
	Monitors []*monitor.Monitor
	// Repeats is the number of turns of each participant. Zero means 6, or 1 with Quick.
	Repeats int
	// For limits the duration. Zero means 15 min. The first repeat always runs. A later repeat
	// runs only if the remaining time allows the mean duration of the earlier repeats.
	For time.Duration
	// Build, if not empty, is a shell command that also runs as a load, such as a build.
	Build string
	// Quick runs few and short loads, for a first impression and for tests.
	Quick bool
	// Out, if not nil, receives each row as a line of JSON as soon as it is measured.
	Out io.Writer
	// Progress, if not nil, is called with the name of each step.
	Progress func(string)
}

func (o *Options) setDefaults() {
	if o.Backends == 0 && len(o.Monitors) == 0 {
		o.Backends = backends.Every
	}
	if o.Quick {
		o.Repeats = cmp.Or(o.Repeats, 1)
	}
	o.Repeats = cmp.Or(o.Repeats, 6)
	o.For = cmp.Or(o.For, 15*time.Minute)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// benchmark is a benchmark in progress.
type benchmark struct {
	Options
	result       *Result
	out          *json.Encoder // nil without Options.Out
	participants []*participant
	loads        []load
}

// participant is a backend or a monitor that takes part.
type participant struct {
	*monitor.Monitor
	own    bool
	failed bool // it has no further turns
}

// Measure runs a benchmark. If a participant fails, the result names it with the reason, and has
// the rows of the others. An error means that there is no result.
func Measure(o Options) (*Result, error) {
	o.setDefaults()
	b := &benchmark{Options: o, result: new(Result)}
	if o.Out != nil {
		b.out = json.NewEncoder(o.Out)
	}
	o.Progress("the speed of this machine")
	if err := b.describe(); err != nil {
		return nil, err
	}
	absent := b.chooseParticipants()
	if err := b.put(line{Machine: &b.result.Machine}); err != nil {
		return nil, err
	}
	for _, note := range absent {
		if err := b.put(line{Note: note}); err != nil {
			return nil, err
		}
	}
	if len(b.participants) == 0 {
		return nil, fmt.Errorf("no participant can run: %s", strings.Join(absent, "; "))
	}
	b.loads = loads(b.result.Top, b.result.CPUs, o.Quick, o.Build)
	began := time.Now()
	for repeat := range o.Repeats {
		if spent := time.Since(began); repeat > 0 && spent+spent/time.Duration(repeat) > o.For {
			o.Progress(fmt.Sprintf("%d of %d repeats fit into %v", repeat, o.Repeats, o.For))
			break
		}
		if err := b.repeat(repeat); err != nil {
			return nil, err
		}
	}
	return b.result, nil
}

// repeat gives each participant a turn. Each repeat begins with another participant, so that none
// is always first.
func (b *benchmark) repeat(n int) error {
	for i := range b.participants {
		p := b.participants[(i+n)%len(b.participants)]
		if p.failed {
			continue
		}
		b.Progress(fmt.Sprintf("%s, repeat %d", p.Name, n+1))
		alone, err := b.alone()
		if err != nil {
			return err
		}
		t := &turn{benchmark: b, participant: p, n: n, alone: alone}
		if err := t.run(); err != nil {
			p.failed = true
			if err := b.put(line{Note: fmt.Sprintf("%s: no further turns after repeat %d: %s", p.Name, n+1, oneLine(err))}); err != nil {
				return err
			}
		}
	}
	return nil
}

// put adds a line to the result and writes it.
func (b *benchmark) put(l line) error {
	l.Type, l.Run = lineType, b.result.id()
	b.result.add(l)
	if b.out == nil {
		return nil
	}
	return b.out.Encode(l)
}

// describe measures and describes the machine.
func (b *benchmark) describe() (err error) {
	m := &b.result.Machine
	*m = Machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Version: fidelity.Version(), Time: time.Now().UTC().Round(time.Millisecond), Repeats: b.Repeats}
	m.Kernel, _ = kernelversion.Running()
	m.Model = procValue("/proc/cpuinfo", "model name")
	idle, all := cpuTicks()
	time.Sleep(time.Second)
	idle2, all2 := cpuTicks()
	m.Busy = 1 - float64(idle2-idle)/float64(max(1, all2-all))
	trial := scenario.Storm{Processes: endless, Workers: m.CPUs, Length: 400 * time.Millisecond}
	if _, m.Top, err = trial.Run(patience, nil); err != nil {
		return fmt.Errorf("run processes without a monitor: %w", err)
	}
	return nil
}

// procValue returns the value of a "name: value" line in a file of /proc.
func procValue(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cpuTicks returns the ticks for which all CPUs have been idle, and all ticks.
func cpuTicks() (idle, all uint64) {
	b, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(b), "\n")
	for i, word := range strings.Fields(first) {
		var n uint64
		if i == 0 || i > 8 { // the name; guest time is part of user time
			continue
		}
		fmt.Sscan(word, &n)
		all += n
		if i == 4 || i == 5 { // idle, iowait
			idle += n
		}
	}
	return idle, all
}

// chooseParticipants chooses the participants. It returns a line for each one that can't take part,
// with the reason.
func (b *benchmark) chooseParticipants() (absent []string) {
	add := func(name string, m *monitor.Monitor, own bool, err error) {
		if err != nil {
			absent = append(absent, fmt.Sprintf("%s: not run: %s", name, oneLine(err)))
			return
		}
		// A row identifies its participant by name, so names must be unique: two commands,
		// or a backend and a monitor, can have equal names.
		taken := func(name string) bool {
			return slices.ContainsFunc(b.participants, func(o *participant) bool { return o.Name == name })
		}
		for n := 2; taken(m.Name); n++ {
			m.Name = fmt.Sprintf("%s %d", name, n)
		}
		b.participants = append(b.participants, &participant{Monitor: m, own: own})
		one := Participant{Name: m.Name, Own: own, Version: m.VersionText(), Silent: m.Silent}
		for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
			if m.Table.Kinds[k].Origin != engine.OriginNone {
				one.Kinds = append(one.Kinds, strings.ToLower(k.String()))
			}
		}
		b.result.Participants = append(b.result.Participants, one)
	}
	for _, name := range b.Backends.Names() {
		m, err := monitor.Backend(name)
		add(name, m, true, err)
	}
	for _, m := range b.Monitors {
		add(m.Name, m, false, m.Available())
	}
	return absent
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// alone returns what Run of the loads at full speed returns without a monitor.
func (b *benchmark) alone() (map[Load]float64, error) {
	rates := make(map[Load]float64)
	for _, l := range b.loads {
		if l.kind != Full && l.kind != Build {
			continue
		}
		var err error
		if _, rates[l.kind], err = l.run(func() error { return nil }); err != nil {
			return nil, fmt.Errorf("run load %s without a monitor: %w", l.kind, err)
		}
	}
	return rates, nil
}
