package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/hunt"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Options are the options of a soak. The zero value runs all backends for a day, from seed 0.
type Options struct {
	For       time.Duration // 24 h if 0
	Every     time.Duration // between samples; 1 min if 0, or less to have 12 of them
	Seed      uint64        // of the lives
	Backends  backends.Set  // 0: all that can be opened
	Exporters []Exporter
	Batch     int           // scripts at a time; 60 if 0
	Patience  time.Duration // limits a batch and the delivery of its last events; 0 is 3 min
	Progress  io.Writer     // a line for each sample; nil for none
}

func (o *Options) setDefaults() {
	o.For = cmp.Or(o.For, 24*time.Hour)
	o.Every = cmp.Or(o.Every, min(time.Minute, o.For/12))
	if o.Backends == 0 {
		o.Backends = backends.Every
	}
	o.Batch = cmp.Or(o.Batch, 60)
	o.Patience = cmp.Or(o.Patience, 3*time.Minute)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

const (
	hold  = 250 * time.Millisecond // of the queues
	grace = time.Second            // in which an ended process stays in their tables
	// lastWord is how much longer one stays whose end was lost: the engine waits 2 s for it.
	lastWord = 3 * time.Second
)

// Report is what a soak has found.
type Report struct {
	Took          time.Duration
	Samples       []Sample
	Lives, Events int // performed, and judged of the queues that stayed open
	Lost          uint64
	Opened        int      // queues that were opened and closed amid the load
	Backends      []string // of which a queue stayed open
	Absent        []string // backends that can't be opened, and why
	Grown         []string // see the function of this name
	// Findings are what was not delivered and not explained, and what else went wrong.
	Findings []string
	// Lies has for each backend what was delivered and is wrong, at most a few.
	Lies map[string][]string
}

// Good reports whether nothing grew and nothing is unexplained. Lies are for package hunt to find.
func (r *Report) Good() bool { return len(r.Grown)+len(r.Findings) == 0 }

// String returns the figures of the whole soak.
func (r *Report) String() string {
	return fmt.Sprintf("%v: %d samples, %d lives, %d events of %s judged, %d lost and explained, %d queues opened and closed",
		r.Took.Round(time.Second), len(r.Samples), r.Lives, r.Events, strings.Join(r.Backends, " "), r.Lost, r.Opened)
}

// enough is how many findings end a soak: what follows says no more.
const enough = 20

// soak is one that runs.
type soak struct {
	Options
	report    Report
	series    hunt.Series
	churn     churn
	exporters []*exporting
	began     time.Time
	script    uint64 // index of the next one
	over      bool   // it can't go on
}

// Run soaks until the time is over, ctx ends, or there is no use to go on. An error is one of the
// machinery, or says that the time was too short to judge by. Nothing is left behind.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	o.setDefaults()
	s := &soak{Options: o, began: time.Now()}
	s.report.Lies = make(map[string][]string)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(); err != nil {
		return nil, err
	}
	for ctx.Err() == nil && !s.over && time.Since(s.began) < o.For && len(s.report.Findings) < enough {
		if err := s.load(ctx); err != nil {
			return nil, err
		}
		if err := s.rest(); err != nil {
			return nil, err
		}
	}
	s.report.Took, s.report.Opened = time.Since(s.began), s.churn.opened
	s.report.Grown, err = Grown(s.report.Samples)
	if err != nil && len(s.report.Findings) > 0 {
		err = nil // it is judged already
	}
	return &s.report, err
}

// open opens all that stays open.
func (s *soak) open() (err error) {
	if s.series.Dir, err = os.MkdirTemp("", "quark-soak-"); err != nil {
		return err
	}
	s.series.Patience = s.Patience
	for _, name := range s.Backends.Names() {
		l, err := fidelity.OpenQueue(name, quark.Options{HoldTime: hold, CacheGraceTime: grace, MinAgg: true, Threads: score.Threads(name)}, false)
		if err != nil {
			s.report.Absent = append(s.report.Absent, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		s.series.Witnesses = append(s.series.Witnesses, witness.New(l, nil, score.Threads(name)))
		s.report.Backends = append(s.report.Backends, name)
	}
	if len(s.report.Backends) == 0 {
		return fmt.Errorf("no backend can be opened: %q", s.report.Absent)
	}
	s.churn = churn{backends: s.report.Backends, patience: s.Patience, rng: rand.New(rand.NewPCG(^s.Seed, 0))}
	for _, e := range s.Exporters {
		x, err := startExporter(e)
		if err != nil {
			return err
		}
		s.exporters = append(s.exporters, x)
	}
	witness.Start(s.series.Witnesses)
	return nil
}

func (s *soak) close() (err error) {
	for _, w := range s.series.Witnesses {
		_, err2 := w.Close()
		err = errors.Join(err, err2)
	}
	for _, x := range s.exporters {
		err = errors.Join(err, x.stop())
	}
	return errors.Join(err, os.RemoveAll(s.series.Dir))
}

// load performs lives until the next sample, while queues come and go and targets fail.
func (s *soak) load(ctx context.Context) (err error) {
	amid, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	var churned error
	all.Go(func() { churned = s.churn.run(amid) })
	for _, x := range s.exporters {
		all.Go(func() { x.fail(amid.Done()) })
	}
	defer func() {
		end()
		all.Wait()
		err = errors.Join(err, churned)
		s.report.Findings = append(s.report.Findings, s.churn.findings...)
		s.churn.findings = nil
	}()
	for begin := time.Now(); ; {
		scripts := make([]*script.Script, s.Batch)
		for i := range scripts {
			scripts[i] = script.Generate(rand.New(rand.NewPCG(s.Seed, s.script)), script.Limits{})
			s.script++
		}
		p, err := s.series.Perform(scripts)
		if err != nil {
			return err
		}
		s.report.Lives += p.Lives
		s.report.Events += p.Events
		s.report.Lost += p.Lost
		s.report.Findings = append(s.report.Findings, p.Unexplained...)
		for backend, list := range p.Lies {
			if s.report.Lies[backend] = append(s.report.Lies[backend], list...); len(s.report.Lies[backend]) > enough {
				s.report.Lies[backend] = s.report.Lies[backend][:enough]
			}
		}
		if ctx.Err() != nil || time.Since(begin) >= s.Every || len(s.report.Findings) >= enough {
			return nil
		}
	}
}

// leak, if not nil, is what tests let grow.
var leak func(*soak)

// rest waits until nothing is left of what has ended, and takes a sample.
func (s *soak) rest() error {
	all := s.series.Witnesses
	if leak != nil {
		leak(s)
	}
	// Who has ended, and whose end was delivered, has to be out of all tables when the grace
	// time is over, and some other event has come.
	if _, err := witness.Settle(witness.Listeners(all), nil, s.Patience); err != nil {
		return err
	}
	gone := make([]map[engine.Identity]bool, len(all))
	if err := s.paused(func() error {
		for i, w := range all {
			gone[i] = ended(w.Single.Queue.(table))
		}
		return nil
	}); err != nil {
		return err
	}
	calm, err := s.calm()
	if err != nil {
		return err
	}
	for _, x := range s.exporters {
		if err := x.check(); err != nil {
			s.report.Findings = append(s.report.Findings, err.Error())
			s.over = true
			return nil
		}
	}
	sample := Sample{After: time.Since(s.began), Busy: !calm}
	for i := range readings {
		if i > 0 {
			time.Sleep(between)
		}
		list, err := s.read(gone)
		if err != nil {
			return err
		}
		sample.Figures = least(sample.Figures, list)
	}
	s.report.Samples = append(s.report.Samples, sample)
	s.tell(sample)
	return nil
}

// calmEvents are so few in the time that a process stays in the tables at most that what they take
// is less than the slack of memory. calmPatience is how long a sample waits for that.
const (
	calmEvents   = 100
	calmPatience = 20 * time.Second
)

// calm waits for the time that a process that has ended stays in the tables at most, and again
// until the machine's other processes had few events meanwhile: what they had is in the memory,
// too. It reports whether that is so.
func (s *soak) calm() (bool, error) {
	for end := time.Now().Add(calmPatience); ; {
		before, err := s.delivered()
		if err != nil {
			return false, err
		}
		time.Sleep(grace + lastWord)
		after, err := s.delivered()
		if err != nil {
			return false, err
		}
		if calm := after-before <= calmEvents; calm || time.Now().After(end) {
			return calm, nil
		}
	}
}

// delivered returns how many events the queue that had most of them has read.
func (s *soak) delivered() (n uint64, err error) {
	for _, l := range witness.Listeners(s.series.Witnesses) {
		stats, err := l.Queue.Stats()
		if err != nil {
			return 0, err
		}
		n = max(n, stats.Insertions)
	}
	return n, nil
}

// readings are taken for a sample, with some time between them. What the machine's other processes
// do meanwhile is in some of them, and what has leaked in all.
const (
	readings = 3
	between  = time.Second
)

// least returns the lesser one of each figure. The first list may be nil.
func least(a, b []Figure) []Figure {
	for i := range a {
		b[i].Value = min(a[i].Value, b[i].Value)
	}
	return b
}

// read returns the figures, gone being the processes that have to have left each table.
func (s *soak) read(gone []map[engine.Identity]bool) (figures []Figure, err error) {
	all := s.series.Witnesses
	if _, err := witness.Settle(witness.Listeners(all), nil, s.Patience); err != nil {
		return nil, err
	}
	// While nobody reads, nothing of the machine's other processes comes into the memory. The
	// tables are looked at after it: a queue keeps what it has shown until it is read again.
	tables := make([]Figure, len(all))
	err = s.paused(func() (err error) {
		for _, w := range all {
			w.Forget()
		}
		if figures, err = ownFigures(); err != nil {
			return err
		}
		for i, w := range all {
			tables[i] = Figure{Name: "ended in the table of " + w.Backend, Value: kept(w.Single.Queue.(table), gone[i])}
			if !every(w.Single.Queue.Capabilities()) {
				tables[i].Value = max(0, tables[i].Value-unswept)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	figures = append(figures, tables...)
	for _, x := range s.exporters {
		more, err := x.figures()
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// paused calls f while nobody reads any queue.
func (s *soak) paused(f func() error) error {
	if err := witness.Pause(s.series.Witnesses); err != nil {
		return err
	}
	defer witness.Start(s.series.Witnesses)
	return f()
}

// tell prints a line.
func (s *soak) tell(sample Sample) {
	r := &s.report
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d lives, %d events, %d lost, %d unexplained, %d queues;", sample.After.Round(time.Second), r.Lives, r.Events, r.Lost, len(r.Findings), s.churn.opened)
	for _, f := range sample.Figures {
		fmt.Fprintf(&b, " %s,", f)
	}
	if sample.Busy {
		b.WriteString(" amid the events of others")
	}
	b.WriteByte('\n')
	io.WriteString(s.Progress, b.String())
}
