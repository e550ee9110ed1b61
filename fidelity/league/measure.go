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
	loads   []load
	// filterOf is with how many processes the filter is measured, 0 for not, and filterTime how
	// long that takes.
	filterOf   int
	filterTime time.Duration
}

// player is a participant.
type player struct {
	*monitor.Monitor
	own    bool
	failed int
	// took is how long its latest turn took, without the scenarios of the first, which took
	// found. 0 is for none.
	took, found time.Duration
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
	if err := g.estimateFilter(); err != nil {
		return nil, err
	}
	for repeat := 0; ; repeat++ {
		if total, _ := g.plan(repeat, 0, time.Since(g.began)); total == repeat {
			if repeat < o.Repeats {
				o.Progress(fmt.Sprintf("%d of %d repeats: %v do not suffice for another", repeat, o.Repeats, o.For), 0)
			}
			break
		}
		// Each repeat begins with another one: no participant always follows the same.
		for i := range g.players {
			p := g.players[(i+repeat)%len(g.players)]
			if p.failed >= strikes {
				continue
			}
			total, left := g.plan(repeat, i, time.Since(g.began))
			o.Progress(fmt.Sprintf("%s, %d of %d", p.Name, repeat+1, total), left)
			if err := g.play(p, repeat); err != nil {
				return nil, err
			}
		}
	}
	if err := g.filter(); err != nil {
		return nil, err
	}
	return g.run, nil
}

// plan returns how many repeats there are to be, and how long all takes yet, when some turns of a
// repeat are over and so much time: as many repeats as are over in time, if each turn takes as long
// as the latest one of the same participant, or as those of the others. left is 0 if nobody has had
// a turn.
func (g *game) plan(repeat, done int, elapsed time.Duration) (total int, left time.Duration) {
	var sum, found, n time.Duration
	for _, p := range g.players {
		if p.took > 0 {
			sum, found, n = sum+p.took, found+p.found, n+1
		}
	}
	if n == 0 {
		return g.Repeats, 0
	}
	var round, rest time.Duration
	for i := range g.players {
		p := g.players[(i+repeat)%len(g.players)]
		if p.failed >= strikes {
			continue
		}
		took := cmp.Or(p.took, sum/n)
		round += took
		if i >= done {
			if rest += took; repeat == 0 {
				rest += found / n
			}
		}
	}
	rest += g.filterTime
	total = g.Repeats
	least := repeat
	if done > 0 || repeat == 0 {
		least++ // it has begun
	}
	for total > least && elapsed+rest+time.Duration(total-repeat-1)*round > g.For {
		total--
	}
	if total == repeat {
		return total, g.filterTime
	}
	return total, rest + time.Duration(total-repeat-1)*round
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

// measuresFilter reports whether the proc connector takes part, whose filter is measured then.
func (g *game) measuresFilter() bool {
	return slices.ContainsFunc(g.players, func(p *player) bool { return p.own && p.Name == "cnproc" })
}

// estimateFilter decides with how many processes the filter is measured: as many as were published,
// unless they would take a minute, or half of the time that is left.
func (g *game) estimateFilter() error {
	if !g.measuresFilter() {
		return nil
	}
	dir, err := os.MkdirTemp("", "quark-league-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	takes, err := bench.Duration(dir)
	if err != nil {
		return fmt.Errorf("processes without a monitor: %w", err)
	}
	const least = 200
	if !kernelversion.AtLeast("6.6") { // it will be said that there is none
		g.filterOf = least
		return nil
	}
	g.filterOf = bench.Published
	for most := min(time.Minute, (g.For-time.Since(g.began))/2); g.filterOf > least && (g.Quick || takes(g.filterOf) > most); {
		g.filterOf = max(least, g.filterOf/2)
	}
	g.filterTime = takes(g.filterOf)
	return nil
}

// filter repeats the published measurement of the proc connector's filter.
func (g *game) filter() error {
	if g.filterOf == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "quark-league-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	list, err := bench.Experiment(dir, g.filterOf, func(over float64) {
		left := g.filterTime
		if over > 0 {
			left = time.Duration(float64(time.Since(began)) * (1 - over) / over)
		}
		g.Progress("the proc connector's filter", left)
	})
	if err != nil {
		return g.put(line{Absent: &fidelity.Absence{Backend: "the proc connector's filter", Reason: oneLine(err)}})
	}
	return g.put(line{Filter: list, FilterOf: g.filterOf})
}
