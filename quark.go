package quark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/hostclock"
	"github.com/quark-linux/quark/internal/poller"
)

// Options configure a queue. The zero value is right for most: each member's zero is its default.
// Invalid values make Open fail with an error that names the option and its range.
type Options struct {
	// MaxLength is how many raw events are buffered at most: 10000 by default, and fewer if
	// they have more than 4 KiB of texts each. Events beyond that wait in the kernel, which may
	// have to drop them. A full buffer may deliver events after younger ones: see Stats.Late.
	MaxLength int

	// HoldTime is how long an event is held to be put in order and joined with those that
	// follow: 1 s by default, at least 10 ms. A shorter time gives quicker and more, smaller
	// events. Delivery may be late by HoldTime/10, at most 50 ms. With less than 0.5 s a GAP of
	// skipped eBPF programs (PREEMPT_RT, Linux 7.0) follows younger events.
	HoldTime time.Duration

	// CacheGraceTime is how long a process can be looked up after its end: 4 s by default.
	CacheGraceTime time.Duration

	// MinAgg delivers FORK, EXEC and EXIT one by one. It joins changes of comm and ids.
	MinAgg bool

	// Matrix replaces the rules by which events are joined, and excludes MinAgg: start from
	// [DefaultMatrix], or from an empty one, which disables joining. It prints as a table.
	Matrix *Matrix

	// Where, if not nil, decides whether an event is delivered: [ParseFilter] compiles an
	// expression, [ParseRules] a file of rules. The process table follows all events, and gaps
	// are always delivered. Environ has to ask for the variables of the environment in it, and
	// Kinds, FailedExecs and Threads for the events without which a term is never true.
	Where *Filter

	// Filter, if not nil, decides likewise about the events that pass Where. It may use the
	// queue, but not call Get.
	Filter func(*Event) bool

	// Record, if not nil, gets all raw events, also those that a filter rejects: a
	// Writer of package engine/trace makes a recording of them.
	Record Recorder

	// Backends are those that may be tried, in their fixed order; 0 means EBPF, KProbe and
	// CNProc, as any other has to be named.
	Backends BackendSet

	// Strict fails when the first allowed backend can't be opened.
	Strict bool

	// Kinds is the set of events that are reported, such as EventExec|EventExit; 0 for all but
	// EXEC_FAILED. The kernel makes no others, as far as the backend does not need them itself,
	// so that few kinds cost less. Values that the others would change are cached or unknown. A
	// backend without any of the kinds is skipped. Gaps are always reported, GONE only with all
	// EXITs.
	Kinds Events

	// FailedExecs adds EventExecFailed to the kinds that are reported: each exec that failed,
	// with the requested path and the error. The search of a command in PATH makes several.
	// FailedExecs makes all system calls a little slower.
	FailedExecs bool

	// Exits selects the ends that are reported. With ExitsNonzero a process that ends with
	// status 0 leaves the table unseen. With EXIT alone in Kinds the proc connector (Linux
	// 6.6) then makes messages of failing threads only, so the exit status may be cached.
	Exits Exits

	// Environ selects variables of the environment with which programs are started, none by
	// default, and hides values of some. The kprobe backend does not have them.
	Environ Environ

	// BTF chooses the source of the running kernel's types, which eBPF and kprobe need: by
	// default the kernel's own, else the ones that quark includes. BTF.Path names a file. Types
	// of another release are tested first, with a tiny child process.
	BTF BTFOptions

	// Threads also delivers events of single threads.
	Threads bool

	// EBPF and the following members are for single backends, such as the sizes of their
	// buffers.
	EBPF   EBPFOptions
	KProbe KProbeOptions
	CNProc CNProcOptions
	Audit  AuditOptions
}

// Queue delivers the events of one backend. One goroutine uses it; Close, Drain, Stats
// and Wake may be called from any.
type Queue struct {
	// mu is held while the engine, the source and /proc work, and not while a Filter decides.
	mu       sync.Mutex
	closed   bool
	end      sync.Once
	engine   *engine.Engine
	source   Source
	attempts []Attempt
	proc     backends.Proc
	clocks   *hostclock.Follower // nil if the source has a clock of its own
	poller   poller.Poller
	interval time.Duration // see [engine.Watcher]; 0 for none
}

// Open chooses a backend, attaches to the kernel and takes the processes that
// exist from it or from /proc; the events begin then. It needs CAP_BPF and CAP_PERFMON, or before
// Linux 6.12 CAP_NET_ADMIN for the proc connector; root has them all. After Open they may be
// dropped.
//
// On other systems than Linux on amd64 and arm64 the error is [errors.ErrUnsupported].
// If no backend can be used the error is an *[OpenError] with all reasons, and an
// *[OptionError] if an option has a value that can't be used.
func Open(opts Options) (*Queue, error) {
	for _, name := range opts.Where.Variables() {
		if !opts.Environ.Has(name) {
			return nil, fmt.Errorf("open quark: %w", &OptionError{Option: "Where", Value: "about env." + name, Err: errors.New("Environ does not ask for this variable")})
		}
	}
	if err := opts.Where.Check(Reported{
		Kinds: cmp.Or(opts.kinds(), source.DefaultKinds), Threads: opts.Threads, Nonzero: opts.Exits == ExitsNonzero, MinAgg: opts.MinAgg, Matrix: opts.Matrix,
	}); err != nil {
		return nil, fmt.Errorf("open quark: %w", &OptionError{Option: "Where", Value: "of no use", Err: err})
	}
	if err := opts.engine().Check(); err != nil { // before anything is asked of the kernel
		return nil, fmt.Errorf("open quark: %w", err)
	}
	// The source comes first: a process born while /proc is read has its FORK, and an older one
	// is there when it is read, or has no event that is delivered.
	src, attempts, err := backends.Open(opts.backends())
	if err != nil {
		return nil, fmt.Errorf("open quark: %w", err)
	}
	q := &Queue{source: src, attempts: attempts, clocks: hostclock.New()}
	if q.proc, err = backends.OpenProc(src, &opts.Environ); err == nil {
		err = q.start(opts, q.clocks.Clock(), q.look, q.proc.Scan)
	}
	if err == nil {
		err = q.engine.Begin()
	}
	if err != nil {
		return nil, fmt.Errorf("open quark: %w", errors.Join(err, q.Close()))
	}
	return q, nil
}

// OpenContext is like [Open], but returns the error of ctx if that ends first. What is opened by
// then is closed in the background.
func OpenContext(ctx context.Context, opts Options) (*Queue, error) {
	var q *Queue
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		q, err = Open(opts)
	}()
	select {
	case <-done:
		return q, err
	case <-ctx.Done():
		go func() {
			if <-done; err == nil {
				q.Close()
			}
		}()
		return nil, fmt.Errorf("open quark: %w", ctx.Err())
	}
}

// backends returns the options of the backends.
func (o *Options) backends() backends.Options {
	return backends.Options{
		Allowed: o.Backends, Strict: o.Strict,
		Shared: source.Options{Threads: o.Threads, Kinds: o.kinds(), Exits: o.Exits, BTF: o.BTF,
			Environ: o.Environ, HoldTime: cmp.Or(o.HoldTime, engine.DefaultHoldTime)},
		EBPF: o.EBPF, KProbe: o.KProbe, CNProc: o.CNProc, Audit: o.Audit,
	}
}

// engine returns the options of the engine, without its callbacks.
func (o *Options) engine() engine.Options {
	return engine.Options{
		MaxLength: o.MaxLength, HoldTime: o.HoldTime, CacheGraceTime: o.CacheGraceTime, MinAgg: o.MinAgg, Matrix: o.Matrix,
	}
}

// kinds returns the kinds of events for the backends.
func (o *Options) kinds() Events {
	if o.FailedExecs {
		return cmp.Or(o.Kinds, source.DefaultKinds) | EventExecFailed
	}
	return o.Kinds
}

// New returns a queue of the events of any source, such as a recording or a test's: it uses neither
// the kernel nor /proc, and works on every system. On other systems than Linux the source must have
// no descriptor. Options for backends have no effect, but fail with an invalid value.
// If the source is an [engine.Timekeeper] or [engine.Scanner], the queue takes the time and the
// first processes from it. Close closes the source, as New does if it fails.
func New(src Source, opts Options) (*Queue, error) {
	if src == nil {
		return nil, errors.New("make queue: the source is nil")
	}
	scan := func(func(*engine.RawEvent) error) error { return nil }
	if s, ok := src.(engine.Scanner); ok {
		scan = s.Scan
	}
	q := &Queue{source: src}
	var clock *Clock
	if t, ok := src.(engine.Timekeeper); ok {
		clock = t.Clock()
	} else {
		q.clocks = hostclock.New()
		clock = q.clocks.Clock()
	}
	wanted := opts.backends()
	err := wanted.Validate()
	if err == nil {
		err = q.start(opts, clock, nil, scan)
	}
	if err != nil {
		return nil, fmt.Errorf("make queue of %s: %w", src.Name(), errors.Join(err, q.Close()))
	}
	return q, nil
}

// start makes the engine, and lets it learn the processes that scan shows.
func (q *Queue) start(opts Options, clock *Clock, look func(uint32) (uint64, engine.Sight),
	scan func(func(*engine.RawEvent) error) error) (err error) {
	o := opts.engine()
	o.Filter, o.Look, o.Record = q.unlocked(opts.Filter), look, opts.Record
	if opts.Where != nil {
		m, err := opts.Where.Matcher(clock)
		if err != nil {
			return &OptionError{Option: "Where", Value: "not usable", Err: err}
		}
		o.Judge, o.Tags = m.Judge, m.Tags()
	}
	changed := -1
	if q.clocks != nil {
		o.FollowClock, changed = q.clocks.Follow, q.clocks.FD()
	}
	if q.engine, err = engine.New(q.source, clock, o); err != nil {
		return err
	}
	if w, ok := q.source.(engine.Watcher); ok {
		q.interval = w.Interval()
	}
	if err := q.poller.Open(q.source.FD(), changed, q.next); err != nil {
		return err
	}
	return scan(func(r *engine.RawEvent) error {
		if r.Time == 0 {
			r.Time = clock.Now()
		}
		q.engine.Learn(r)
		return nil
	})
}

// look checks a process. The engine calls it while mu is held, or before others have the queue.
func (q *Queue) look(pid uint32) (start uint64, sight engine.Sight) {
	if q.closed {
		return 0, engine.SightUnknown
	}
	return q.proc.Look(pid)
}

// unlocked returns the filter so that it may use the queue, also close it.
func (q *Queue) unlocked(filter func(*Event) bool) func(*Event) bool {
	if filter == nil {
		return nil
	}
	return func(ev *Event) bool {
		q.mu.Unlock()
		defer q.mu.Lock()
		return filter(ev)
	}
}

// Drain begins an orderly end: it detaches from the kernel, where the backend can. Get then returns
// all events from before the call, also those that still wait in the kernel, 100 ms after they
// happened; and then ErrNothing. By then their order is sure, unless a CPU was stopped for longer:
// events that come too late are counted in [Stats] as Late. [Queue.Drained] reports when that is
// for good, and Events ends then. It may be called from any goroutine.
func (q *Queue) Drain() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return os.ErrClosed
	}
	defer q.poller.Wake()
	return q.engine.Drain()
}

// Drained reports whether all is delivered, after Drain or the end of a source given to New.
func (q *Queue) Drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Drained()
}

// Close detaches from the kernel and removes all that it attached. It may be called from any
// goroutine and ends a Block, Get or Events that runs in another: these return os.ErrClosed from
// then on. A second Close returns nil.
func (q *Queue) Close() (err error) {
	q.end.Do(func() { err = q.close() })
	return err
}

func (q *Queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock() // whoever waits may want it before it leaves the poller
	errs := []error{q.poller.Close()}
	q.mu.Lock()
	defer q.mu.Unlock()
	errs = append(errs, q.source.Close())
	if q.proc != nil {
		errs = append(errs, q.proc.Close())
	}
	if q.clocks != nil {
		q.clocks.Close()
	}
	return errors.Join(errs...)
}

// Backend is the name of the active backend, such as "ebpf".
func (q *Queue) Backend() string { return q.source.Name() }

// Attempts are the backends that failed before the active one, and why.
func (q *Queue) Attempts() []Attempt { return q.attempts }

// Capabilities describes which values the active backend reports on this kernel, and how.
func (q *Queue) Capabilities() *CapabilityTable { return q.source.Capabilities() }

// Matrix returns the rules by which events are joined.
func (q *Queue) Matrix() *Matrix { return q.engine.Matrix() }

// Get returns the next event; ErrNothing when none is old enough, os.ErrClosed
// after Close; any other error is the backend's and final. It never waits. The
// event, and every *Process that the queue has handed out, are valid until the
// next call; their Clone methods keep them.
func (q *Queue) Get() (*Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, os.ErrClosed
	}
	ev, err := q.engine.Get()
	if q.closed { // by the filter, or while it decided
		return nil, os.ErrClosed
	}
	if errors.Is(err, ErrNothing) {
		if err := q.poller.Expose(q.pause); err != nil {
			return nil, err
		}
	}
	return ev, err
}

// next is pause for the poller.
func (q *Queue) next() (wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, true
	}
	return q.pause()
}

// pause returns how long the queue can sleep, unless the source's descriptor polls readable; ok is
// false if the time is unlimited.
func (q *Queue) pause() (wait time.Duration, ok bool) {
	wait, held := q.engine.Wait()
	if !q.source.Arm(!held) {
		return 0, true // something came meanwhile: Get has to fetch it first
	}
	if !held && q.source.FD() >= 0 {
		return q.interval, q.interval > 0
	}
	// While events are held, more can be left in the kernel for a while, and fetched together:
	// they would only be held too. Nor is each delivered at its exact time: a wakeup for each
	// would cost more than the rest of the work.
	hold := q.engine.HoldTime()
	return min(max(wait, hold/20), hold/10, 50*time.Millisecond), true
}

// Block waits until Get may have an event to return, or Wake was called, but not longer than
// timeout; a negative timeout waits without end. After Close it returns os.ErrClosed. It reads the
// events that the kernel has queued, and goes on waiting while they are too young to be delivered.
func (q *Queue) Block(timeout time.Duration) error {
	var end time.Time
	if timeout > 0 {
		end = time.Now().Add(timeout)
	}
	for {
		woken, err := q.poller.Wait(timeout)
		if err != nil || woken || timeout == 0 || !q.young() {
			return err
		}
		if timeout > 0 {
			if timeout = time.Until(end); timeout <= 0 {
				return nil
			}
		}
	}
}

// young reports whether Get has no work, as all held events are too young.
func (q *Queue) young() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.engine.Young()
}

// Wake ends a Block that waits or the next one to come. It may be called from
// any goroutine.
func (q *Queue) Wake() { q.poller.Wake() }

// FD returns a descriptor that polls readable when Get should be called; the first call is before
// the first Get. Do not read from or close it. It is -1 after Close, and on systems other than
// Linux.
func (q *Queue) FD() int { return q.poller.Watch() }

// Events yields all events until ctx ends. It then drains the queue as [Queue.Drain] does, yields
// the events from before the end of ctx and stops; the end of ctx is no error. To stop at once,
// leave the loop or call Close. Events also stops after Drain, and after an error, which it yields
// last. Each event is valid until the next.
func (q *Queue) Events(ctx context.Context) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		defer context.AfterFunc(ctx, q.Wake)()
		for draining := false; ; {
			if !draining && ctx.Err() != nil {
				if err := q.Drain(); err != nil {
					yield(nil, err)
					return
				}
				draining = true
			}
			ev, err := q.Get()
			switch {
			case err == nil:
				if !yield(ev, nil) {
					return
				}
			case errors.Is(err, ErrNothing):
				if q.Drained() {
					return
				}
				err = q.Block(-1)
				if err == nil {
					break
				}
				fallthrough
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// Lookup returns the process that has the pid or had it last, nil if none is known.
func (q *Queue) Lookup(pid uint32) *Process { return q.engine.Lookup(pid) }

// LookupIdentity returns the process of that pid and start time, even if the
// pid has been used again.
func (q *Queue) LookupIdentity(id Identity) *Process { return q.engine.LookupIdentity(id) }

// SessionLeader returns the leader of p's session, which may have ended, or nil if it is not known.
// The leader's identity is as of p.AsOf, its state as of its own AsOf. A nil p, as Lookup may
// return it, has unknown relatives.
func (q *Queue) SessionLeader(p *Process) *Process {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.SessionLeader(p)
}

// GroupLeader returns the leader of p's process group, as SessionLeader does for the session.
func (q *Queue) GroupLeader(p *Process) *Process {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.GroupLeader(p)
}

// Ancestors returns p's parent, its parent and so on: for each process the parent at birth, or, if
// its birth was not seen, the parent that it had later. Ended ones are among them for
// CacheGraceTime. whole reports whether the last one is process 1 or kthreadd.
func (q *Queue) Ancestors(p *Process) (ancestors []*Process, whole bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Ancestors(p)
}

// AppendJSON appends the event as Event.AppendJSON does, with the leaders and ancestors of its
// process. For each it writes the values at the begin of the event, or marks them.
func (q *Queue) AppendJSON(b []byte, ev *Event) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.AppendJSON(b, ev)
}

// AppendJSONString appends s as a JSON string, with U+FFFD for bytes that are not UTF-8, and
// reports whether all are.
func AppendJSONString(b []byte, s string) (to []byte, valid bool) {
	return engine.AppendJSONString(b, s)
}

// AppendDump appends the event as Event.AppendDump does, with the leaders and ancestors of its
// process, by name where that was true when the event began.
func (q *Queue) AppendDump(b []byte, ev *Event) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.AppendDump(b, ev)
}

// Processes yields all known processes in order of pid.
func (q *Queue) Processes() iter.Seq[*Process] { return q.engine.Processes() }

// Passes reports whether Options.Where and Options.Filter let an event pass, such as one without a
// kind that was made of a process of Processes. It changes no counter.
func (q *Queue) Passes(ev *Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Passes(ev)
}

// Stats returns the counters; it may cost a system call. It may be called from any
// goroutine. After Close it returns os.ErrClosed.
func (q *Queue) Stats() (Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Stats{}, os.ErrClosed
	}
	s, err := q.engine.Stats()
	if err == nil && q.proc != nil {
		s.Source.Blocked += q.proc.Blocked()
	}
	return s, err
}

// Clock converts the times of events and processes to wall time. It follows suspends and changes of
// the wall clock: each event has the wall time by the clock of its moment. An event of the last
// moments before a change, at most a tenth of HoldTime, may have the wall time after the change.
func (q *Queue) Clock() *Clock { return q.engine.Clock() }
