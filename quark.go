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

// Options configure a queue. The zero value of each member is its default. Invalid values make Open
// fail with an error that names the option and its range.
type Options struct {
	// MaxLength is the largest number of buffered raw events: 10000 by default, fewer if they
	// have more than 4 KiB of strings each. Further events wait in the kernel, which may drop
	// them. If the buffer is full, events may be delivered out of order: see Stats.Late.
	MaxLength int

	// HoldTime is how long an event is held to be ordered and joined with later events: 1 s by
	// default, at least 10 ms. A shorter time delivers more, smaller events earlier. Delivery
	// may be late by HoldTime/10, at most 50 ms. With less than 0.5 s, the GAP for skipped eBPF
	// programs (PREEMPT_RT, Linux 7.0) may be delivered out of order.
	HoldTime time.Duration

	// CacheGraceTime is how long a process can be looked up after its exit: 4 s by default.
	CacheGraceTime time.Duration

	// MinAgg delivers FORK, EXEC and EXIT as separate events. It joins changes of comm and ids.
	MinAgg bool

	// Matrix replaces the rules by which events are joined, and excludes MinAgg. Start from
	// [DefaultMatrix], or from an empty Matrix, which disables joining. A Matrix prints as a
	// table.
	Matrix *Matrix

	// Where, if not nil, decides whether an event is delivered: [ParseFilter] compiles an
	// expression, [ParseRules] a file of rules. The process table follows all events, and gaps
	// are always delivered. Environ must select the environment variables that Where uses.
	// Kinds, FailedExecs and Threads must select the events that its terms need.
	Where *Filter

	// Filter, if not nil, decides whether an event that passes Where is delivered. It may use
	// the queue, but not call Get.
	Filter func(*Event) bool

	// Record, if not nil, gets all raw events, also those that a filter rejects: a
	// Writer of package engine/trace makes a recording of them.
	Record Recorder

	// Backends is the set of backends that may be tried, in their fixed order; 0 means EBPF,
	// KProbe and CNProc. Other backends must be named.
	Backends BackendSet

	// Strict makes Open fail if the first allowed backend cannot be opened.
	Strict bool

	// Kinds is the set of events that to report, such as EventExec|EventExit; 0 for all but
	// EXEC_FAILED. The kernel produces only these kinds and those that the backend itself
	// needs, so few kinds cost less. Values that an excluded kind would change are cached or
	// unknown. A backend that reports none of the kinds is skipped. Gaps are always reported,
	// GONE only with all EXITs.
	Kinds Events

	// FailedExecs also reports each failed exec, with the requested path and the error. A
	// search for a command in PATH causes several. All system calls get a little slower.
	FailedExecs bool

	// Exits selects the exits that are reported. With ExitsNonzero a process that exits with
	// status 0 is removed from the table without an event.
	Exits Exits

	// Environ selects the environment variables that an exec reports, none by default, and
	// hides values. The kprobe backend does not report variables.
	Environ Environ

	// BTF chooses the source of the running kernel's types, which eBPF and kprobe need: by
	// default the kernel's own BTF, else the archive in quark. BTF.Path names a file. Types of
	// another release are first tested with a tiny child process.
	BTF BTFOptions

	// Threads also delivers events of single threads.
	Threads bool

	// EBPF and the following members are options of one backend each, such as buffer sizes.
	EBPF   EBPFOptions
	KProbe KProbeOptions
	CNProc CNProcOptions
	Audit  AuditOptions
}

// Queue delivers the events of one backend. One goroutine uses it; Close, Drain, Stats
// and Wake may be called from any.
type Queue struct {
	// mu is held while the engine or the source works or /proc is read, but not during a
	// Filter.
	mu       sync.Mutex
	closed   bool
	end      sync.Once
	engine   *engine.Engine
	source   Source
	attempts []Attempt
	proc     backends.Proc
	clocks   *hostclock.Follower // nil if the source has a clock of its own
	poller   poller.Poller
	interval time.Duration // interval of an [engine.Watcher]; 0 for other sources
}

// Open chooses a backend, attaches to the kernel and reads the existing processes from the kernel
// or /proc. It reports events from then on. Open needs CAP_BPF and CAP_PERFMON; the proc connector
// needs CAP_NET_ADMIN before Linux 6.12. Root has all capabilities. They may be dropped after Open.
//
// On other systems than Linux on amd64 and arm64 the error is [errors.ErrUnsupported]. If no
// backend can be used the error is an *[OpenError] with all reasons. If the value of an option is
// invalid it is an *[OptionError].
func Open(opts Options) (*Queue, error) {
	for _, name := range opts.Where.Variables() {
		if !opts.Environ.Has(name) {
			return nil, fmt.Errorf("open quark: %w", &OptionError{Option: "Where", Value: "about env." + name, Err: errors.New("the option Environ does not request this variable")})
		}
	}
	reported := Reported{
		Kinds: cmp.Or(opts.kinds(), source.DefaultKinds), Threads: opts.Threads, Nonzero: opts.Exits == ExitsNonzero, MinAgg: opts.MinAgg, Matrix: opts.Matrix,
	}
	if err := opts.Where.Check(reported); err != nil {
		return nil, fmt.Errorf("open quark: %w", &OptionError{Option: "Where", Value: "of no use", Err: err})
	}
	if err := opts.engineOptions().Check(); err != nil { // check before any system call
		return nil, fmt.Errorf("open quark: %w", err)
	}
	// The source is opened before /proc is read: a process forked during the read has a FORK.
	// An older process is found in /proc, or none of its events is delivered.
	src, attempts, err := backends.Open(opts.backendOptions())
	if err != nil {
		return nil, fmt.Errorf("open quark: %w", err)
	}
	q := &Queue{source: src, attempts: attempts, clocks: hostclock.New()}
	reported.Kinds &= src.Capabilities().Reported()
	if err := opts.Where.CheckAny(reported); err != nil {
		return nil, fmt.Errorf("open quark: %w", errors.Join(&OptionError{Option: "Where", Value: "of no use with " + src.Name(), Err: err}, q.Close()))
	}
	if q.proc, err = backends.OpenProc(src, &opts.Environ); err == nil {
		err = q.start(opts, q.clocks.Clock(), q.checkPID, q.proc.Scan)
	}
	if err == nil {
		err = q.engine.Begin()
	}
	if err != nil {
		return nil, fmt.Errorf("open quark: %w", errors.Join(err, q.Close()))
	}
	return q, nil
}

// OpenContext is like [Open], but returns the error of ctx if ctx ends first. Anything opened is
// then closed in the background.
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

// backendOptions returns the options of the backends.
func (o *Options) backendOptions() backends.Options {
	return backends.Options{
		Allowed: o.Backends, Strict: o.Strict,
		Shared: source.Options{Threads: o.Threads, Kinds: o.kinds(), Asked: o.Kinds, Exits: o.Exits, BTF: o.BTF,
			Environ: o.Environ, HoldTime: cmp.Or(o.HoldTime, engine.DefaultHoldTime)},
		EBPF: o.EBPF, KProbe: o.KProbe, CNProc: o.CNProc, Audit: o.Audit,
	}
}

// engineOptions returns the options of the engine, without its callbacks.
func (o *Options) engineOptions() engine.Options {
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

// New returns a queue of the events of any source, such as a recording or a fake. It uses neither
// the kernel nor /proc, and works on every system. On systems other than Linux the source must have
// no descriptor. Options for backends have no effect, but fail with an invalid value. If the source
// is an [engine.Timekeeper] or [engine.Scanner], the queue reads the time and the initial processes
// from the source. Close closes the source. New closes it on failure.
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
	wanted := opts.backendOptions()
	err := wanted.Validate()
	if err == nil {
		err = q.start(opts, clock, nil, scan)
	}
	if err != nil {
		return nil, fmt.Errorf("make queue of %s: %w", src.Name(), errors.Join(err, q.Close()))
	}
	return q, nil
}

// start creates the engine, and adds the processes that scan reports.
func (q *Queue) start(opts Options, clock *Clock, checkPID func(uint32) (uint64, engine.PIDState),
	scan func(func(*engine.RawEvent) error) error) (err error) {
	o := opts.engineOptions()
	o.Filter, o.CheckPID, o.Record = q.unlocked(opts.Filter), checkPID, opts.Record
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

// checkPID checks a process. The engine calls it while mu is held, or before Open or New returns.
func (q *Queue) checkPID(pid uint32) (start uint64, state engine.PIDState) {
	if q.closed {
		return 0, engine.PIDUnknown
	}
	return q.proc.CheckPID(pid)
}

// unlocked returns filter with mu unlocked during its calls, so that it may use and close the
// queue.
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

// Drain detaches from the kernel, if the backend can, and ends the stream of events. Get then
// returns all events from before the call, also events that are still in the kernel, 100 ms after
// they happened, and then ErrNothing. The events are in order unless a CPU was stopped for longer:
// [Stats] counts events out of order as Late. When all are delivered, [Queue.Drained] returns true
// and Events ends. Drain may be called from any goroutine.
func (q *Queue) Drain() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return os.ErrClosed
	}
	defer q.poller.Wake()
	return q.engine.Drain()
}

// Drained reports whether all events are delivered, after Drain or the end of a source given to
// New.
func (q *Queue) Drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Drained()
}

// Close detaches from the kernel and removes everything that Open attached. It may be called from
// any goroutine, and ends a concurrent Block, Get or Events: these return os.ErrClosed from then
// on. A second Close returns nil.
func (q *Queue) Close() (err error) {
	q.end.Do(func() { err = q.close() })
	return err
}

func (q *Queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock() // a goroutine in the poller may need mu before it returns
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

// Attempts returns the backends that failed before the active one, with their errors.
func (q *Queue) Attempts() []Attempt { return q.attempts }

// Capabilities describes which values the active backend reports on this kernel, and how.
func (q *Queue) Capabilities() *CapabilityTable { return q.source.Capabilities() }

// Matrix returns the rules by which events are joined.
func (q *Queue) Matrix() *Matrix { return q.engine.Matrix() }

// Get returns the next event. It never waits. The error is ErrNothing if no event is old enough,
// os.ErrClosed after Close; any other error is the backend's and final. The event, and every
// *Process that the queue has returned, are valid until the next call; their Clone methods return
// copies that stay valid.
func (q *Queue) Get() (*Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, os.ErrClosed
	}
	ev, err := q.engine.Get()
	if q.closed { // closed by the filter, or while the filter ran
		return nil, os.ErrClosed
	}
	if errors.Is(err, ErrNothing) {
		if err := q.poller.Expose(q.pause); err != nil {
			return nil, err
		}
	}
	return ev, err
}

// next calls pause for the poller, with mu locked.
func (q *Queue) next() (wait time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, true
	}
	return q.pause()
}

// pause returns how long to wait, unless the source's descriptor polls readable first. ok is false
// if there is no limit.
func (q *Queue) pause() (wait time.Duration, ok bool) {
	wait, held := q.engine.Wait()
	if !q.source.Arm(!held) {
		return 0, true // records are queued: Get must read them first
	}
	if !held && q.source.FD() >= 0 {
		return q.interval, q.interval > 0
	}
	// While events are held, further events may stay in the kernel and be read together,
	// because they would be held anyway. Events are not delivered at their exact times: a
	// wakeup for each would cost more than all other work.
	hold := q.engine.HoldTime()
	return min(max(wait, hold/20), hold/10, 50*time.Millisecond), true
}

// Block waits until Get may have an event to return, Wake is called, or timeout expires; a negative
// timeout never expires. After Close it returns os.ErrClosed. Block reads the events that the
// kernel has queued, and keeps waiting while all events are too young to be delivered.
func (q *Queue) Block(timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; {
		woken, err := q.poller.Wait(timeout)
		if err != nil || woken || timeout == 0 || !q.young() {
			return err
		}
		if timeout > 0 {
			timeout = max(0, time.Until(end))
		}
	}
}

// young reports whether all held events are too young for Get.
func (q *Queue) young() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && q.engine.Young()
}

// Wake ends the Block that waits, or else the next Block. It may be called from any goroutine.
func (q *Queue) Wake() { q.poller.Wake() }

// FD returns a descriptor that polls readable when Get should be called. Call FD before the first
// Get. Do not read or close the descriptor. FD returns -1 after Close, and on systems other than
// Linux.
func (q *Queue) FD() int { return q.poller.Watch() }

// Events yields all events until ctx ends. When ctx ends, Events drains the queue as [Queue.Drain]
// does, yields the remaining events and stops, without an error. To stop at once, leave the loop or
// call Close. Events also stops after Drain, and after an error, which it yields last. Each event
// is valid until the next one.
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
			if errors.Is(err, ErrNothing) {
				if q.Drained() {
					return
				}
				if err = q.Block(-1); err == nil {
					continue
				}
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Lookup returns the process that has the pid or had it last, nil if none is known.
func (q *Queue) Lookup(pid uint32) *Process { return q.engine.Lookup(pid) }

// LookupIdentity returns the process with that pid and start time, even if the pid was reused.
func (q *Queue) LookupIdentity(id Identity) *Process { return q.engine.LookupIdentity(id) }

// SessionLeader returns the leader of p's session, which may have ended, or nil if the leader is
// unknown. The session is that of p at p.AsOf; the returned state of the leader is as of the
// leader's AsOf. If p is nil, as Lookup may return, the result is nil.
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

// Ancestors returns p's parent, the parent's parent and so on. The parent is the process that
// called fork or, if the FORK was not seen, a later parent. Ended ancestors are included for
// CacheGraceTime. whole reports whether the last ancestor is process 1 or kthreadd.
func (q *Queue) Ancestors(p *Process) (ancestors []*Process, whole bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Ancestors(p)
}

// AppendJSON appends the event as Event.AppendJSON does, with the leaders and ancestors of its
// process. Their values are as of the begin of the event, or marked as later.
func (q *Queue) AppendJSON(b []byte, ev *Event) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.AppendJSON(b, ev)
}

// AppendJSONString appends s as a JSON string, with U+FFFD for bytes that are not UTF-8. valid
// reports whether all bytes are UTF-8.
func AppendJSONString(b []byte, s string) (to []byte, valid bool) {
	return engine.AppendJSONString(b, s)
}

// AppendDump appends the event as Event.AppendDump does, with the leaders and ancestors of its
// process. Their names are as of the begin of the event.
func (q *Queue) AppendDump(b []byte, ev *Event) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.AppendDump(b, ev)
}

// Processes yields all known processes in order of pid.
func (q *Queue) Processes() iter.Seq[*Process] { return q.engine.Processes() }

// Passes reports whether Options.Where and Options.Filter pass an event, such as an event that the
// caller made from a process of Processes, without a kind. It changes no counter.
func (q *Queue) Passes(ev *Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.engine.Passes(ev)
}

// Stats returns the counters. It may make a system call, and may be called from any goroutine.
// After Close it returns os.ErrClosed.
func (q *Queue) Stats() (Stats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Stats{}, os.ErrClosed
	}
	s, err := q.engine.Stats()
	if err == nil && q.proc != nil {
		s.Source.Blocked = q.proc.Blocked()
	}
	return s, err
}

// Clock converts the times of events and processes to wall time. It follows suspends and changes of
// the wall clock: each event has the wall time of the clock at that time. An event shortly before a
// change, at most a tenth of HoldTime, may have the time of the changed clock.
func (q *Queue) Clock() *Clock { return q.engine.Clock() }
