package fidelity

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

const (
	costProcesses = 2000
	minCost       = 100
)

// Load measures forced loss, storms and cost of the report's backends and adds them to it.
func (r *Report) Load(o Options) error {
	o.setDefaults()
	var names []string
	for _, b := range r.Backends {
		names = append(names, b.Name)
	}
	for _, name := range names {
		if name == "procpoll" {
			continue // it has no buffer that could be full
		}
		o.Progress("forced loss of " + name)
		h, err := Honest(name, o.Patience)
		if err != nil {
			return fmt.Errorf("forced loss of %s: %w", name, err)
		}
		r.Honesty = append(r.Honesty, h)
	}
	o.Progress("how many processes per second this machine can run")
	trial := scenario.Storm{Processes: 2 * minStorm, Workers: stormWorkers, Mode: scenario.ForkExecExit, Bare: true}
	speed, err := trial.Speed(o.Patience)
	if err != nil {
		return fmt.Errorf("processes without a monitor: %w", err)
	}
	most := int(speed)
	if r.Storms, err = Storms(o, most); err != nil {
		return fmt.Errorf("storms: %w", err)
	}
	// Half a second's worth of processes: an emulated machine would need minutes for all.
	n := min(costProcesses, max(minCost, most/2))
	if r.Costs, err = Costs(o, names, n); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	costs, absent := MonitorCosts(o, n)
	r.Costs, r.Absent = append(r.Costs, costs...), append(r.Absent, absent...)
	for _, m := range o.Monitors {
		o.Progress("forced loss of " + m.Name)
		h, err := HonestMonitor(m, o.Patience)
		if err != nil {
			r.Absent = append(r.Absent, Absence{m.Name, "its forced loss: " + err.Error()})
			continue
		}
		r.Honesty = append(r.Honesty, h)
	}
	return nil
}

// Cost is the cost of a monitor that only counts events while processes fork, exec and exit one
// after the other.
type Cost struct {
	Backend   string `json:"backend"`
	Processes int    `json:"processes"`
	// CPU is the monitor's CPU time per 1,000 processes.
	CPU time.Duration `json:"cpu_ns_per_1000"`
	// Slowdown is the load's duration with the monitor divided by its duration without.
	Slowdown float64 `json:"slowdown"`
	// Programs is the run time of eBPF programs per process, 0 for backends without any.
	Programs time.Duration `json:"programs_ns"`
	// Judge is the CPU time of this process per 1,000 processes, to read and translate what a
	// monitor of others prints; 0 for backends, which need none.
	Judge time.Duration `json:"judge_ns_per_1000,omitempty"`
	RSS   int64         `json:"peak_rss_kib"`
	// Ready is how long it took from its start until it reported processes; 0 is not measured.
	Ready time.Duration `json:"ready_ns,omitempty"`
	Lost  uint64        `json:"lost"`
}

// JudgeText formats Judge.
func (c *Cost) JudgeText() string {
	if c.Judge == 0 {
		return "-"
	}
	return c.Judge.Round(100 * time.Microsecond).String()
}

// ReadyText formats Ready in whole milliseconds.
func (c *Cost) ReadyText() string {
	if c.Ready == 0 {
		return "-"
	}
	return c.Ready.Round(time.Millisecond).String()
}

// CPUText formats CPU, rounded to 0.1 ms: more digits would be noise.
func (c *Cost) CPUText() string { return c.CPU.Round(100 * time.Microsecond).String() }

// ProgramsText formats Programs in microseconds.
func (c *Cost) ProgramsText() string {
	if c.Programs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", float64(c.Programs)/1e3)
}

const costRuns = 3

// Costs measures each backend alone, under a load of n processes. On a busy machine the slowdown
// means little.
func Costs(o Options, names []string, n int) (list []Cost, err error) {
	o.setDefaults()
	load := scenario.Storm{Processes: n, Workers: 1, Mode: scenario.ForkExecExit, Bare: true}
	for _, name := range names {
		o.Progress("cost of " + name)
		c := Cost{Backend: name, Processes: n}
		observed := func(what string) (time.Duration, meter.Usage, error) {
			return meter.Under(load, o.Patience, func() (func() (meter.Usage, error), error) { return meter.Start(what) })
		}
		if err := c.measure(&o, load, func() (time.Duration, meter.Usage, error) { return observed(name) }); err != nil {
			return nil, err
		}
		if name == "ebpf" {
			// Measuring the programs costs time itself, so it has a separate run.
			_, u, err := observed(name + "+stats")
			if err != nil {
				return nil, err
			}
			c.Programs = u.Programs / time.Duration(n)
		}
		list = append(list, c)
	}
	return list, nil
}

// measure measures a monitor, under which observed runs the load. Other work of the machine only
// makes runs slower, so the fastest runs are compared. Runs with and without the monitor alternate.
func (c *Cost) measure(o *Options, load scenario.Storm, observed func() (time.Duration, meter.Usage, error)) error {
	alone, watched := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range costRuns {
		took, err := load.Time(o.Patience, nil)
		if err != nil {
			return err
		}
		alone = min(alone, took)
		took, u, err := observed()
		if err != nil {
			return err
		}
		if cpu := u.CPU * 1000 / time.Duration(load.Processes); c.CPU == 0 || cpu < c.CPU {
			c.CPU = cpu
		}
		if judge := u.Judge * 1000 / time.Duration(load.Processes); c.Judge == 0 || judge < c.Judge {
			c.Judge = judge
		}
		watched = min(watched, took)
		c.RSS, c.Lost = max(c.RSS, u.RSS), c.Lost+u.Lost
	}
	c.Slowdown = watched.Seconds() / alone.Seconds()
	return nil
}

// Storm is one point of the curve of events seen by offered rate.
type Storm struct {
	Backend string  `json:"backend"`
	Offered float64 `json:"offered"` // processes that were started, per second
	Truth   int     `json:"truth"`   // their events
	Seen    int     `json:"seen"`
	Lost    uint64  `json:"lost"` // reported as lost
	Cause   string  `json:"cause,omitempty"`
	Foreign bool    `json:"foreign,omitempty"` // a monitor that is not quark's
	// Known is the share of fields that were known, 0 to 1.
	Known float64 `json:"known"`
	// Extra counts phantoms and duplicates, Inverted events delivered out of order.
	Extra    int `json:"extra,omitempty"`
	Inverted int `json:"inverted,omitempty"`
	// Wrong counts wrong fields, time stamps and process table entries.
	Wrong    int      `json:"wrong,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

// Honest reports whether all missing events were reported as lost and every delivered event is
// true.
func (s *Storm) Honest() bool {
	return uint64(s.Truth-s.Seen) <= s.Lost && s.Extra+s.Inverted+s.Wrong == 0
}

const (
	// topRate is the highest rate in processes per second; slow machines get less.
	topRate      = 4000
	stormLength  = 500 * time.Millisecond
	minStorm     = 100 // processes
	stormWorkers = 4
)

// rates returns the four rates to offer, each twice the one before. The last is topRate, halved
// until the machine can nearly reach it, where most is the machine's capacity.
func rates(most int) []int {
	top := topRate
	for 10*most < 7*top && top >= 16 {
		top /= 2
	}
	return []int{top / 8, top / 4, top / 2, top}
}

// Storms runs storms of rising rates, and at last one at full speed, while all backends listen.
// most is about how many processes per second the machine can run.
func Storms(o Options, most int) (list []Storm, err error) {
	o.setDefaults()
	for _, rate := range append(rates(most), 0) {
		offered := rate
		if rate == 0 {
			offered = most
		}
		n := max(minStorm, int(float64(offered)*stormLength.Seconds()))
		o.Progress(fmt.Sprintf("a storm of %d processes", n))
		points, err := storm(&o, scenario.Storm{Processes: n, Workers: stormWorkers, Rate: rate, Mode: scenario.ForkExecExit})
		if err != nil {
			return nil, err
		}
		list = append(list, points...)
	}
	return list, nil
}

// storm runs one storm while all backends listen.
func storm(o *Options, s scenario.Storm) (list []Storm, err error) {
	once := *o
	once.Repeats = 1
	_, err = listen(&once, []scenario.Scenario{s.Scenario()}, false, func(h *heard) {
		w, stats := h.Witness, &h.stats
		lives, rate := scenario.ShortLives(h.outcomes[0].Lives)
		sc := score.Lives(w, lives)
		all := sc.All()
		list = append(list, Storm{
			Backend: w.Backend, Offered: rate, Truth: sc.Truth, Seen: sc.Seen, Lost: stats.Lost(), Cause: causes(stats),
			Foreign: w.Foreign != nil,
			Known:   float64(all.Right+all.Carried+all.Truncated) / float64(max(1, all.Total())),
			Extra:   sc.Phantoms + sc.Duplicates, Inverted: sc.Inversions, Wrong: all.Wrong + sc.Stamp.Wrong + sc.Table, Findings: sc.Findings,
		})
	})
	return list, err
}

// Honesty compares the events that a backend lost with those it reported as lost. The backend
// has tiny buffers, and a second queue with normal buffers records all events.
type Honesty struct {
	Backend string `json:"backend"`
	Truth   int    `json:"truth"`   // events of the scenario
	Missing int    `json:"missing"` // of these, not delivered
	// Absent counts the events of all processes of the host, stamped during the scenario,
	// that only the normal queue delivered. AtMost counts the same from before the tiny
	// queue was opened until after it was closed; with cnproc also the ends by signals, see
	// mayDump. On an idle host they are equal.
	Absent   int    `json:"absent"`
	AtMost   int    `json:"at_most"`
	Reported uint64 `json:"reported"` // events that the backend reported as lost
	Cause    string `json:"cause"`
	// Foreign is set for a monitor that is not quark's, which stood still during a storm:
	// Absent is Missing then, and Reported may have events of other processes.
	Foreign bool `json:"foreign,omitempty"`
}

// Exact reports whether events were lost and the number reported as lost is between Absent and
// AtMost.
func (h *Honesty) Exact() bool {
	n := int(h.Reported)
	return h.Missing > 0 && h.Missing <= h.Absent && h.Absent <= n && n <= h.AtMost
}

// honestyProcesses is the number of processes, which make two events each. On each of many CPUs
// these are more than a one-page ring or the smallest socket buffer can hold.
const honestyProcesses = 300

// Honest forces a loss on a backend by giving it tiny buffers that are not read in time.
func Honest(name string, patience time.Duration) (*Honesty, error) {
	list, err := scenario.CPUs()
	if err != nil {
		return nil, err
	}
	// Threads are included because their events can be lost too.
	opts := quark.Options{HoldTime: 100 * time.Millisecond, MinAgg: true, Threads: score.Threads(name)}
	all, err := OpenQueue(name, opts, false)
	if err != nil {
		return nil, err
	}
	opts.EBPF, opts.KProbe, opts.CNProc = ebpf.Options{RingSize: 1}, kprobe.Options{RingSize: 1}, cnproc.Options{ReceiveBuffer: 1}
	opts.Tracepoint.RingSize = 1
	opts.Taskstats.ReceiveBuffer = 1
	opts.Audit.ReceiveBuffer = 1
	some, err := OpenQueue(name, opts, false)
	if err != nil {
		_, err2 := all.Close()
		return nil, errors.Join(err, err2)
	}
	all.Start()
	from := truth.Clock()
	var records []truth.Record
	for i := range honestyProcesses {
		_, r, err := scenario.Brief(list[i%len(list)])
		if err != nil {
			_, err2 := all.Close()
			_, err3 := some.Close()
			return nil, errors.Join(err, err2, err3)
		}
		records = append(records, r...)
	}
	// Nothing has been read from the tiny queue before this point.
	some.Start()
	to, err := witness.Settle([]*witness.Listener{all, some}, nil, patience)
	stats, err1 := some.Close()
	if err == nil && err1 == nil {
		// Everything that happened while tiny was open has then reached full.
		_, err = witness.Settle([]*witness.Listener{all}, nil, patience)
	}
	whole, err2 := all.Close()
	if err = errors.Join(err, err1, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lives, err := truth.Assemble(records)
	if err != nil {
		return nil, err
	}
	h := &Honesty{Backend: name, Reported: stats.Lost(), Absent: countRaw(all.Seen(), from, to) - countRaw(some.Seen(), from, to)}
	h.AtMost = int(whole.Insertions) - int(stats.Insertions)
	if name == "cnproc" {
		h.AtMost += mayDump(all.Seen())
	}
	h.Cause = causes(&stats)
	s := score.Lives(&score.Witness{Table: some.Queue.Capabilities(), Opened: from, Single: some.Seen(), Clock: score.Clock(name)}, lives)
	h.Truth, h.Missing = s.Truth, s.Truth-s.Seen
	return h, nil
}

// mayDump counts the ends by a signal. For one that may dump core the proc connector has a message
// more, which can be lost, but is an event only if a core is dumped.
func mayDump(seen []score.Seen) (n int) {
	for _, s := range seen {
		if x := s.Process.Exit; s.Events.Has(engine.EventExit) && !s.Thread && x.Signal() != 0 && !x.CoreDumped() {
			n++
		}
	}
	return n
}

// causes formats the numbers of lost events by cause.
func causes(s *quark.Stats) string {
	var list []string
	for l, n := range s.Source.Lost {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", engine.Loss(l), n))
		}
	}
	return strings.Join(list, " ")
}

// countRaw counts the source's events stamped after from and up to to, without those that stand for
// lost ones, and core dumps, which a lost exit takes along. The last thread of a process may appear
// twice, as its own exit and as the exit of its group; that is one event of the source.
func countRaw(seen []score.Seen, from, to uint64) (n int) {
	type key struct {
		pid  uint32
		time uint64
	}
	ends := make(map[key]bool)
	for _, s := range seen {
		if s.Time <= from || s.Time > to || s.Events.Has(engine.EventGap|engine.EventGone|engine.EventCoreDump) {
			continue
		}
		if s.Events == engine.EventExit {
			if k := (key{s.Process.PID, s.Time}); !ends[k] {
				ends[k] = true
				n++
			}
			continue
		}
		n += len(s.Events.Names(nil))
	}
	return n
}
