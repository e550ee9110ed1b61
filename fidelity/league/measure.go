package league

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
	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Options are the options of a league. The zero value measures all backends, for 15 minutes at
// most.
type Options struct {
	// Backends are quark's that take part: all that exist if 0, unless there are Monitors.
	Backends backends.Set
	// Monitors are programs of others.
	Monitors []*monitor.Monitor
	// Repeats is how often each load runs with each participant, 6 if 0: the fewest of which
	// an interval has the median with 95 %.
	Repeats int
	// For is when no further repeat is begun that would not be over by then, 15 min if 0.
	For time.Duration
	// Patience is how long a monitor may take to be ready, and to say the last of what it has
	// seen. 0 is 10 s, enough for one that is busy with what came at once, and up to 2 min on
	// a slow machine.
	Patience time.Duration
	// Quick has one repeat and few short loads, for a first look and for tests.
	Quick bool
	// Out, if not nil, gets all that is measured as lines of JSON, each at once.
	Out io.Writer
	// Progress, if not nil, is called with what runs now and about how long all takes yet, 0
	// if that is not known.
	Progress func(what string, left time.Duration)
}

func (o *Options) setDefaults() {
	if o.Backends == 0 && len(o.Monitors) == 0 {
		o.Backends = backends.Every
	}
	o.Repeats = cmp.Or(o.Repeats, 6)
	if o.Quick {
		o.Repeats = 1
	}
	o.For = cmp.Or(o.For, 15*time.Minute)
	if o.Progress == nil {
		o.Progress = func(string, time.Duration) {}
	}
}

const (
	// grace is how long a monitor has to end.
	grace = 2 * time.Second
	// loadPatience is for a load, which has an end of its own.
	loadPatience = 3 * time.Minute
	// strikes is how often a participant may fail until it is not started any more.
	strikes = 2
)

// game is a league that is being measured.
type game struct {
	Options
	run     *Run
	out     *json.Encoder // nil if nobody wants the lines
	players []*player
	began   time.Time
	rounds  int // how often a participant has had its turn
	loads   []load
}

// player is a participant.
type player struct {
	*monitor.Monitor
	own    bool
	failed int
}

// Measure runs a league. The error says why there is none: what fails for one participant is said
// in the result, where the others' figures stand.
func Measure(o Options) (*Run, error) {
	o.setDefaults()
	g := &game{Options: o, run: new(Run), began: time.Now()}
	if o.Out != nil {
		g.out = json.NewEncoder(o.Out)
	}
	o.Progress("how busy this machine is, and how many processes it can run", 0)
	if err := g.look(); err != nil {
		return nil, err
	}
	if g.Patience == 0 {
		g.Patience = patience(g.run.Top)
	}
	absent, versions := g.invite()
	g.run.Participants = versions
	if err := g.put(line{Machine: &g.run.Machine}); err != nil {
		return nil, err
	}
	for _, a := range absent {
		if err := g.put(line{Absent: &a}); err != nil {
			return nil, err
		}
	}
	if len(g.players) == 0 {
		return nil, fmt.Errorf("nobody takes part: %v", absent)
	}
	g.loads = loads(&o, g.run.Top, g.run.CPUs)
	for repeat := range o.Repeats {
		if repeat > 0 && time.Since(g.began)+g.turn()*time.Duration(len(g.players))+filterTime(bench.Published, g.run.Top) > o.For {
			o.Progress(fmt.Sprintf("%d of %d repeats: %v do not suffice for another", repeat, o.Repeats, o.For), 0)
			break
		}
		// Each repeat begins with another one: no participant always follows the same.
		for i := range g.players {
			p := g.players[(i+repeat)%len(g.players)]
			if p.failed >= strikes {
				continue
			}
			left := time.Duration(0)
			if g.rounds > 0 {
				left = min(g.turn()*time.Duration(len(g.players)*o.Repeats-g.rounds), o.For-time.Since(g.began))
			}
			o.Progress(fmt.Sprintf("%s, %d of %d", p.Name, repeat+1, o.Repeats), max(left, 0))
			if err := g.play(p, repeat); err != nil {
				return nil, err
			}
			g.rounds++
		}
	}
	if err := g.filter(); err != nil {
		return nil, err
	}
	return g.run, nil
}

// patience returns the default of Options.Patience on a machine that makes top lives a second.
func patience(top float64) time.Duration {
	const least, most, usual = 10 * time.Second, 2 * time.Minute, 4000
	return time.Duration(min(float64(most), float64(least)*max(1, usual/max(top, 1))))
}

// put adds a line to the result and writes it.
func (g *game) put(l line) error {
	l.Type, l.Run = lineType, g.run.id()
	g.run.add(l)
	if g.out == nil {
		return nil
	}
	return g.out.Encode(l)
}

// turn returns how long the turn of one participant takes.
func (g *game) turn() time.Duration {
	return time.Since(g.began) / time.Duration(max(1, g.rounds))
}

// look describes the machine.
func (g *game) look() (err error) {
	m := &g.run.Machine
	*m = Machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Version: fidelity.Version(), Time: time.Now().UTC().Round(time.Millisecond), Repeats: g.Repeats}
	m.Kernel, _ = kernelversion.Running()
	m.Model = procLine("/proc/cpuinfo", "model name")
	fmt.Sscan(procLine("/proc/meminfo", "MemTotal"), &m.Memory)
	before, all := cpuTicks()
	time.Sleep(time.Second)
	idle, total := cpuTicks()
	if total > all {
		m.Busy = 1 - float64(idle-before)/float64(total-all)
	}
	trial := scenario.Storm{Processes: endless, Workers: m.CPUs, Mode: scenario.ForkExecExit, Length: 400 * time.Millisecond}
	if _, m.Top, err = perform(trial, nil); err != nil {
		return fmt.Errorf("processes without a monitor: %w", err)
	}
	return nil
}

// procLine returns what follows a name and a colon in a file of /proc.
func procLine(file, name string) string {
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

// cpuTicks returns the ticks that all CPUs have been idle, and all ticks.
func cpuTicks() (idle, all uint64) {
	b, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(b), "\n")
	for i, word := range strings.Fields(first) {
		var n uint64
		if i == 0 || i > 8 { // the name; guests are in user time
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

// invite chooses the participants, and says why others are not among them.
func (g *game) invite() (absent []fidelity.Absence, list []Participant) {
	for _, name := range g.Backends.Names() {
		m, err := monitor.Backend(name)
		if err != nil {
			absent = append(absent, fidelity.Absence{Backend: name, Reason: oneLine(err)})
			continue
		}
		g.players = append(g.players, &player{Monitor: m, own: true})
	}
	for _, m := range g.Monitors {
		if err := m.Available(); err != nil {
			absent = append(absent, fidelity.Absence{Backend: m.Name, Reason: oneLine(err)})
			continue
		}
		g.players = append(g.players, &player{Monitor: m})
	}
	for i, p := range g.players {
		// Rows have names alone: two commands can have the same, or a backend and a
		// monitor.
		taken := func(name string) bool {
			return slices.ContainsFunc(g.players[:i], func(o *player) bool { return o.Name == name })
		}
		name := p.Name
		if !p.own && taken(name) && p.Package != "" {
			name = p.Package
		}
		for n := 2; taken(name); n++ {
			name = fmt.Sprintf("%s %d", p.Name, n)
		}
		p.Name = name
		one := Participant{Name: p.Name, Own: p.own, Version: p.VersionText(), Silent: p.Silent, Unstamped: p.Foreign.NoStamps}
		for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
			if p.Table.Kinds[k].Origin != engine.OriginNone {
				one.Kinds = append(one.Kinds, strings.ToLower(k.String()))
			}
		}
		if p.own {
			one.Version = g.run.Version
		}
		list = append(list, one)
	}
	return absent, list
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// filterTime returns about how long the measurement of the filter takes with n processes.
func filterTime(n int, top float64) time.Duration {
	// bench.Experiment listens in so many ways, and its processes are slower to start.
	const ways, slower = 11, 5
	return time.Duration(slower * ways * float64(n) / max(top, 1) * float64(time.Second))
}

// filter repeats the published measurement of the proc connector's filter.
func (g *game) filter() error {
	if !slices.ContainsFunc(g.players, func(p *player) bool { return p.own && p.Name == "cnproc" }) {
		return nil
	}
	// A slow machine would need minutes for as many as were published.
	const least = 200
	n := bench.Published
	for n > least && (g.Quick || time.Since(g.began)+filterTime(n, g.run.Top) > g.For || filterTime(n, g.run.Top) > time.Minute) {
		n = max(least, n/2)
	}
	g.Progress("the proc connector's filter", filterTime(n, g.run.Top))
	dir, err := os.MkdirTemp("", "quark-league-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, err := bench.Experiment(dir, n)
	if err != nil {
		return g.put(line{Absent: &fidelity.Absence{Backend: "the proc connector's filter", Reason: oneLine(err)}})
	}
	return g.put(line{Filter: list, FilterOf: n})
}
