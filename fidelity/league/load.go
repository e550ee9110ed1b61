package league

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// load is what is done under a participant.
type load struct {
	kind  string
	storm scenario.Storm
}

const (
	// costRate is the rate at which cost is compared: one that a small machine makes.
	costRate = 1000
	// leastPaced and leastFull are the fewest lives of a load at a rate and at full speed, so
	// that what a monitor does besides, such as to look at its buffers, is not most of its
	// cost.
	leastPaced, leastFull = 40, 200
	endless               = 1 << 30
)

// loads returns the loads of a league, on a machine that makes top lives a second.
func loads(o *Options, top float64, cpus int) (list []load) {
	length, lives, rates := 350*time.Millisecond, 140, []int{100, 1000, 3000, 10000, 30000, 100000}
	if o.Quick {
		length, lives, rates = 150*time.Millisecond, 35, nil
	}
	makes := func(rate int) bool { return float64(rate) < 0.9*top }
	cost := costRate
	if !makes(cost) {
		cost = max(1, int(top/2)) // on a slow machine
	}
	rates = slices.DeleteFunc(rates, func(rate int) bool { return !makes(rate) })
	if !slices.Contains(rates, cost) {
		rates = append(rates, cost)
	}
	lasting := func(lives int, rate float64) time.Duration {
		return max(length, time.Duration(float64(lives)/max(rate, 1)*float64(time.Second)))
	}
	storm := scenario.Storm{Processes: endless, Workers: cpus, Mode: scenario.ForkExecExit, Length: lasting(leastFull, top)}
	paced := func(kind string, rate int) {
		s := storm
		s.Rate, s.Length = rate, lasting(leastPaced, float64(rate))
		list = append(list, load{kind, s})
	}
	for _, rate := range rates {
		paced(Rate, rate)
	}
	for workers := 1; ; workers *= 2 {
		s := storm
		if s.Workers = min(workers, cpus); s.Workers == cpus || !o.Quick {
			list = append(list, load{Full, s})
		}
		if s.Workers == cpus {
			break
		}
	}
	list = append(list, load{Lifetime, scenario.Storm{Processes: lives, Workers: cpus, Mode: scenario.Lives, Rate: 280}})
	list = append(list, load{Stopped, storm})
	paced(Programs, cost)
	paced(Counted, cost)
	return list
}

// turn is one repeat of one participant.
type turn struct {
	*game
	*player
	repeat   int
	run      *monitor.Run
	witness  *witness.Witness
	programs meter.Programs
	alone    map[int]float64 // lives a second without it, by number of workers
}

// play lets a participant have its turn. What fails is said in the result; an error is one of the
// league.
func (g *game) play(p *player, repeat int) error {
	t := &turn{game: g, player: p, repeat: repeat, alone: make(map[int]float64)}
	began, found := time.Now(), p.found
	defer func() { p.took = time.Since(began) - (p.found - found) }()
	for _, l := range g.loads {
		if l.kind != Full {
			continue
		}
		_, rate, err := perform(l.storm, nil)
		if err != nil {
			return err
		}
		t.alone[l.storm.Workers] = rate
	}
	failed, err := t.all()
	if err != nil || failed == nil {
		return err
	}
	p.failed++
	return g.put(line{Absent: &fidelity.Absence{Backend: p.Name, Reason: fmt.Sprintf("in repeat %d: %s", repeat+1, oneLine(failed))}})
}

// all starts the monitor and runs all loads. failed is why it could not be measured to the end.
func (t *turn) all() (failed, err error) {
	if t.run, failed = t.Start(monitor.Options{Patience: t.Patience, Grace: grace}); failed != nil {
		return failed, nil
	}
	t.programs = t.run.Programs()
	t.witness = witness.New(witness.Listen(t.run, 0, false), nil, t.Threads)
	t.witness.Single.Start()
	failed, err = t.each()
	events := t.run.Events()
	_, notes := t.run.Stop()
	err = errors.Join(err, t.witness.Single.Pause())
	if failed != nil {
		return fmt.Errorf("after %d events: %s", events, strings.Join(append([]string{failed.Error()}, notes...), "; ")), err
	}
	for _, note := range notes {
		err = errors.Join(err, t.put(line{Note: &fidelity.Absence{Backend: t.Name, Reason: note}}))
	}
	if t.own && failed == nil && err == nil {
		err = t.counted()
	}
	return nil, err
}

func (t *turn) each() (failed, err error) {
	for _, l := range t.loads {
		var rows []Row
		switch {
		case l.kind == Counted, l.kind == Programs && len(t.programs) == 0, l.kind == Stopped && (t.Traces || t.Accounting || t.Blocks):
			continue
		}
		if rows, failed = t.measure(l); failed != nil {
			return fmt.Errorf("%s: %w", l.name(), failed), nil
		}
		for _, r := range rows {
			if err := t.put(line{Row: &r}); err != nil {
				return nil, err
			}
		}
	}
	if t.repeat > 0 {
		return nil, nil
	}
	began := time.Now()
	failed, err = t.findings()
	t.found = time.Since(began)
	return failed, err
}

// name says what load it is.
func (l *load) name() string {
	switch {
	case l.kind == Full || l.kind == Stopped:
		return fmt.Sprintf("as many lives as %d workers start", l.storm.Workers)
	case l.kind == Lifetime:
		return "lives of some length"
	}
	return fmt.Sprintf("%d lives a second", l.storm.Rate)
}

// perform runs a storm and returns its outcome, and how many lives it made a second. After it is
// ready, before it begins, begin is called, if it is not nil.
func perform(s scenario.Storm, begin func() error) (*scenario.Outcome, float64, error) {
	run, err := scenario.Start(s.Scenario())
	if err != nil {
		return nil, 0, err
	}
	if begin != nil {
		err = begin()
	}
	outcomes, err2 := run.Wait(loadPatience)
	if err := errors.Join(err, err2); err != nil {
		return nil, 0, err
	}
	_, rate := scenario.ShortLives(outcomes[0].Lives)
	return outcomes[0], rate, nil
}

// measure runs a load and returns its row, or a row for each lifetime.
func (t *turn) measure(l load) ([]Row, error) {
	t.witness.Forget()
	t.run.Hold()
	defer t.run.Release()
	var counting io.Closer
	ran := time.Duration(0)
	if l.kind == Programs {
		var err error
		if counting, err = meter.CountRunTime(); err != nil {
			return nil, err
		}
		defer counting.Close()
		ran = t.programs.RunTime()
	}
	before := t.run.Usage()
	judge := watchSelf()
	begin := func() error { return nil }
	if l.kind == Stopped {
		begin = t.run.Pause
	}
	outcome, rate, err := perform(l.storm, begin)
	cpu := judge.stop()
	if l.kind == Stopped {
		err = errors.Join(err, t.run.Resume())
	}
	if err != nil {
		return nil, err
	}
	t.run.Release()
	if err := t.run.Settle(); err != nil {
		return nil, err
	}
	after := t.run.Usage()
	r := Row{
		Participant: t.Name, Repeat: t.repeat, Load: l.kind, Rate: l.storm.Rate, Workers: l.storm.Workers, Offered: rate,
		Lost: after.Lost - before.Lost, CPU: after.CPU - before.CPU, RSS: after.RSS, Ready: t.run.Ready,
	}
	if l.kind == Programs {
		r.Programs = t.programs.RunTime() - ran
	}
	if l.kind == Full {
		r.Alone = t.alone[l.storm.Workers]
	}
	heard, err := t.testimony()
	if err != nil {
		return nil, err
	}
	lives, _ := scenario.ShortLives(outcome.Lives)
	r.Judge = cpu.during(lives)
	if l.kind != Lifetime {
		r.judge(heard, lives)
		return []Row{r}, nil
	}
	var rows []Row
	for _, lifetime := range scenario.Lifetimes {
		of := slices.DeleteFunc(slices.Clone(lives), func(l *truth.Life) bool { return !executed(l, scenario.LifeName(lifetime)) })
		one := r
		one.Lifetime, one.CPU, one.Lost = lifetime, 0, 0 // those are of all together
		one.judge(heard, of)
		one.know(heard, of, lives)
		rows = append(rows, one)
	}
	return rows, nil
}

// testimony returns what the monitor has said.
func (t *turn) testimony() (*score.Witness, error) {
	if err := t.witness.Single.Pause(); err != nil {
		return nil, err
	}
	heard := t.witness.Testimony()
	// What its lines lack nothing explains but its table.
	heard.Foreign, heard.Unread = &t.Foreign, true
	t.witness.Single.Start()
	return heard, nil
}

func executed(l *truth.Life, name string) bool {
	return slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
		return e.Kind == engine.KindExec && e.State.Value[engine.FieldComm] == name
	})
}

// judge sets what was said of some lives.
func (r *Row) judge(heard *score.Witness, lives []*truth.Life) {
	sc := score.Lives(heard, lives)
	all := sc.All()
	r.Lives, r.Truth, r.Seen, r.Inverted, r.Extra = len(lives), sc.Truth, sc.Seen, sc.Inversions, sc.Phantoms+sc.Duplicates
	r.Wrong, r.Stale = all.Wrong+sc.Stamp.Wrong, all.Stale
	if n := len(sc.Delays); n > 0 {
		slices.Sort(sc.Delays)
		at := func(i int) time.Duration { return time.Duration(sc.Delays[i]) }
		r.DelayP50, r.DelayP99, r.DelayMax = at(n/2), at(n*99/100), at(n-1)
	}
}

// Wanted are the fields of a life that people ask for.
var Wanted = []engine.Field{
	engine.FieldPPID, engine.FieldUIDs, engine.FieldComm, engine.FieldFilename, engine.FieldCmdline, engine.FieldCwd, engine.FieldCgroup, engine.FieldExit,
}

// know counts the wanted fields that were right in some event of each life, and wrong in none.
func (r *Row) know(heard *score.Witness, lives, all []*truth.Life) {
	for _, l := range lives {
		sc := score.Among(heard, []*truth.Life{l}, all)
		for _, f := range Wanted {
			r.Wanted++
			if v := sc.Fields[f]; v.Right+v.Carried+v.Truncated > 0 && v.Wrong+v.Stale == 0 {
				r.Known++
			}
		}
	}
}

// counted measures the backend in a process that prints nothing.
func (t *turn) counted() error {
	i := slices.IndexFunc(t.loads, func(l load) bool { return l.kind == Counted })
	s := t.loads[i].storm
	s.Bare = true
	s.Processes = int(float64(s.Rate) * s.Length.Seconds()) // as a bare storm tells nothing
	s.Length = 0
	took, u, err := meter.Under(s, loadPatience, func() (func() (meter.Usage, error), error) { return meter.Start(t.Name) })
	if err != nil {
		return t.put(line{Absent: &fidelity.Absence{Backend: t.Name, Reason: "its cost without printing: " + oneLine(err)}})
	}
	return t.put(line{Row: &Row{
		Participant: t.Name, Repeat: t.repeat, Load: Counted, Rate: s.Rate, Workers: s.Workers, Lives: s.Processes,
		Offered: float64(s.Processes) / took.Seconds(), CPU: u.CPU, RSS: u.RSS, Lost: u.Lost,
	}})
}

// findings runs the scenarios in which monitors are known to be wrong.
func (t *turn) findings() (failed, err error) {
	faults := make(map[string]monitor.Fault)
	var names []string
	for _, f := range monitor.Faults() {
		if f.Monitor == strings.TrimSuffix(t.Name, "*") {
			faults[f.Scenario] = f
		} else if t.Quick {
			continue
		}
		if !slices.Contains(names, f.Scenario) {
			names = append(names, f.Scenario)
		}
	}
	for _, name := range names {
		s, _ := scenario.Find(name)
		t.witness.Forget()
		t.run.Hold()
		run, err := scenario.Start(s)
		if err != nil {
			return nil, err
		}
		outcomes, err := witness.Perform(run, nil, loadPatience)
		t.run.Release()
		if err != nil {
			return fmt.Errorf("scenario %s: %w", name, err), nil
		}
		if err := t.run.Settle(); err != nil {
			return fmt.Errorf("scenario %s: %w", name, err), nil
		}
		heard, err := t.testimony()
		if err != nil {
			return nil, err
		}
		sc := score.Lives(heard, outcomes[0].Lives)
		all := sc.All()
		f := Finding{
			Participant: t.Name, Scenario: name, Truth: sc.Truth, Seen: sc.Seen,
			Bad: sc.Phantoms + sc.Duplicates + sc.Inversions + all.Wrong + all.Stale + sc.Stamp.Wrong,
			// These are quoted as they are.
			Findings: sc.Findings[:min(len(sc.Findings), 3)],
		}
		if fault, ok := faults[name]; ok {
			f.Fault, f.Count = fault.What, fault.Wrong(sc)
		}
		if err := t.put(line{Finding: &f}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// selfWatch samples the CPU time of this process.
type selfWatch struct {
	quit, done chan struct{}
	samples    []sample
}

type sample struct {
	at  uint64
	cpu time.Duration
}

// watchSelf begins to sample.
func watchSelf() *selfWatch {
	w := &selfWatch{quit: make(chan struct{}), done: make(chan struct{})}
	w.take()
	go func() {
		defer close(w.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-tick.C:
				w.take()
			}
		}
	}()
	return w
}

func (w *selfWatch) take() {
	var ru unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &ru) // can't fail with these arguments
	w.samples = append(w.samples, sample{truth.Clock(), time.Duration(ru.Utime.Nano() + ru.Stime.Nano())})
}

// stop ends the sampling.
func (w *selfWatch) stop() *selfWatch {
	close(w.quit)
	<-w.done
	w.take()
	return w
}

// during returns the CPU time from the first birth to the last end of some lives, to a sample
// before and one after.
func (w *selfWatch) during(lives []*truth.Life) time.Duration {
	if len(lives) == 0 {
		return 0
	}
	first, last := truth.Forever, uint64(0)
	for _, l := range lives {
		first, last = min(first, l.Born()), max(last, l.Ended())
	}
	from := w.samples[0]
	for _, s := range w.samples {
		if s.at <= first {
			from = s
		}
		if s.at >= last {
			return s.cpu - from.cpu
		}
	}
	return w.samples[len(w.samples)-1].cpu - from.cpu
}
