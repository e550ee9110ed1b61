package kprobe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"time"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/internal/pulse"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/tracefs"
	"golang.org/x/sys/unix"
)

// Source delivers the events of probes in the kernel. It implements [engine.Source]. After Open it
// uses only its descriptors and shared memory, so that the process may drop its privileges and
// change its root. A process that has dropped its privileges cannot add a CPU that comes online
// later.
type Source struct {
	capabilities engine.CapabilityTable
	shared       source.Options
	ringSize     int

	probes    *tracefs.Probes
	installed []string // the tracefs lines that remove the probes
	sets      []*set
	byID      []*probe // by the first two bytes of a record

	cpus     []*cpu
	online   *perf.Online
	children uint64 // the offset of task_struct.children
	pulse    *pulse.Pulse
	beat     *probe // for package pulse; nil if none of its functions could be probed

	walker    walker
	completer *completer // nil without /proc
	endings   endings
	execs     execs

	inserted  uint64
	lost      uint64 // missing samples of first probes, found by gaps in the hit counts
	decode    uint64 // samples that could not be decoded
	blind     bool   // a CPU had no ring for some time, or could not get one
	unseen    []int  // CPUs that came online since followed; -1 for any
	followed  uint64 // time of the last check of CPUs after all rings were read
	opened    uint64 // time at which the probes of all CPUs were enabled
	finishing bool   // see Finish
	detached  bool   // see Detach
	held      uint64 // see Held; 0 for none
}

// Name returns "kprobe".
func (s *Source) Name() string { return "kprobe" }

// Capabilities returns the events and fields of the installed probes.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.capabilities }

// FD returns a descriptor that polls readable if a ring of any CPU does.
func (s *Source) FD() int {
	if s.probes == nil {
		return -1
	}
	return s.online.FD()
}

// Populate moves queued events to the sink. After Close it returns [os.ErrClosed].
func (s *Source) Populate(to engine.Sink) error {
	if s.probes == nil {
		return os.ErrClosed
	}
	more, step := func() bool { return to.Room() > 0 }, func(c *cpu) { s.step(c, to) }
	for to.Room() > 0 && perf.ReadQueued(s.cpus, more, step) {
	}
	all := to.Room() > 0 // else records may still be in a ring
	s.finishOverdue(to)
	s.release(to)
	// This follows the reading of the rings: an event must not be inserted before a gap with an
	// earlier time.
	s.followCPUs(to)
	g, ended := s.pulse.Gap()
	if ended {
		insertGap(to, g)
	}
	if since, silent := s.pulse.Silence(); silent || ended {
		s.execs.markMissing(min(since, cmp.Or(g.From, since)))
	}
	s.closeOffline(to)
	if all { // after all checks for missing records
		s.reportExecs(to)
	}
	s.held = s.oldestHeld()
	return nil
}

// oldestHeld returns the time of the oldest event that waits for its other records, or 0 for none.
func (s *Source) oldestHeld() uint64 {
	const none = math.MaxUint64
	oldest := uint64(none)
	for _, c := range s.cpus {
		if c.now.set != nil {
			oldest = min(oldest, c.now.time)
		}
	}
	for _, ev := range s.endings.parked {
		oldest = min(oldest, ev.Time)
	}
	if len(s.execs.read) > 0 {
		oldest = min(oldest, s.execs.read[0].time)
	}
	if oldest == none {
		return 0
	}
	return oldest
}

// Interval returns the longest time between two calls of Populate that the check of probes allows,
// or 0 for no limit.
func (s *Source) Interval() time.Duration { return s.pulse.Interval() }

// Held returns the time of the oldest event that waits for its other records. If a record was lost,
// the wait may be longer than the engine delays events.
func (s *Source) Held() (oldest uint64, ok bool) { return s.held, s.held != 0 }

// Detach implements [engine.Detacher]. Afterwards, samples that found no room earlier are counted.
func (s *Source) Detach() {
	s.detached = true
	s.pulse.Stop()
	for _, c := range s.cpus {
		c.disarm()
		c.leader.Disable()
		c.tally.MarkSuspect()
	}
}

// Finish makes Populate deliver all events. An EXIT has no status if its leader's record has not
// come by the time the rings are empty.
func (s *Source) Finish() { s.finishing = true }

// followCPUs detects CPUs that went online or offline. It inserts a gap for each new CPU, because
// the CPU's events since the last check are lost.
func (s *Source) followCPUs(to engine.Sink) {
	began := clock.Monotonic()
	perf.Follow(s.online, s.cpus, rings{s})
	for _, cpu := range s.unseen {
		s.execs.markMissing(s.followed)
		insertUnseen(to, cpu, s.followed, clock.Monotonic())
	}
	s.unseen = s.unseen[:0]
	if to.Room() > 0 { // else the rings hold events older than the next gap
		s.followed = began
	}
}

// closeOffline closes the rings of offline CPUs, once all their records are read.
func (s *Source) closeOffline(to engine.Sink) {
	s.cpus = slices.DeleteFunc(s.cpus, func(c *cpu) bool {
		if !c.Offline || c.Ring.Pending() > 0 {
			return false
		}
		if c.now.set != nil {
			s.finish(c, to)
		}
		now := clock.Monotonic()
		g, lost, ok := c.tally.Final(c.Number)
		if s.lost += lost; ok {
			insertGap(to, g)
		}
		// The kernel removes the perf events before it moves the tasks to another CPU.
		s.execs.markMissing(c.tally.Last)
		insertUnseen(to, c.Number, c.tally.Last, now)
		s.blind = true
		c.close()
		return true
	})
}

// finishOverdue ends the wait for records that are overdue.
func (s *Source) finishOverdue(to engine.Sink) {
	now := clock.Monotonic()
	for _, c := range s.cpus {
		if c.now.set != nil && c.Ring.Pending() == 0 && now > c.now.time+maxWait {
			s.finish(c, to)
		}
	}
	if s.finishing && !slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.Ring.Pending() > 0 }) {
		now = math.MaxUint64
	}
	for to.Room() > 0 {
		ev := s.endings.overdue(now)
		if ev == nil {
			return
		}
		s.insert(to, ev) // without a status
	}
}

// maxWait is the longest time in ns that an event waits for its other records. The kernel writes
// them one after the other, but a virtual CPU may pause between them. The next event on the same
// CPU ends the wait, so the wait is long only if a record was lost and no event follows.
const maxWait = 1e9

// step reads one record of a ring.
func (s *Source) step(c *cpu, to engine.Sink) {
	rec, ok, bad := c.Ring.Next()
	if bad {
		s.decode++
	}
	if !ok {
		return
	}
	c.wakeupDeadline = 0
	switch {
	case perf.IsWakeup(rec):
		c.woke, c.wakeupDeadline = true, clock.Monotonic()+maxWait
	case rec.Type == perf.RecordSample:
		var sample perf.Sample
		if err := sample.ParseSample(rec.Body); err != nil {
			s.decode++
			break
		}
		s.sample(c, to, &sample)
		c.tally.Last = sample.Time
		if rec.Aside && c.now.set != nil {
			c.now.values.keep()
		}
	case rec.Type == perf.RecordLost: // the counts show how many events were lost
		c.tally.MarkSuspect()
	}
}

// probe returns the probe that made a raw sample, or nil.
func (s *Source) probe(raw []byte) *probe {
	if len(raw) < 2 {
		return nil
	}
	if id := int(binary.NativeEndian.Uint16(raw)); id < len(s.byID) {
		return s.byID[id]
	}
	return nil
}

// sample joins a sample with the other samples of the same event.
func (s *Source) sample(c *cpu, to engine.Sink, sample *perf.Sample) {
	p, a := s.probe(sample.Raw), &c.now
	if p == nil {
		s.decode++
		return
	}
	if a.set != nil && (a.set != p.set || a.count != sample.Count || a.have&p.part != 0) {
		s.finish(c, to)
	}
	if a.set == nil {
		a.begin(p.set, sample.Count)
	}
	if p.part == 1 {
		s.lost += c.tally.AddSample(p.set.family, sample.Count)
		a.time, a.cpu, a.pid, a.tid = sample.Time, sample.CPU, sample.PID, sample.TID
	} else if a.have == 0 {
		a.time = sample.Time
	}
	if len(sample.Raw) < p.layout.size {
		if p.part == 1 {
			s.decode++
			a.set = nil
		}
		return // the event stays without this part
	}
	a.values.add(p.number, sample.Raw)
	a.have |= p.part
	if a.have == p.set.all {
		s.finish(c, to)
	}
}

// finish makes an event from the joined samples.
func (s *Source) finish(c *cpu, to engine.Sink) {
	a := &c.now
	if a.have&1 != 0 {
		s.deliver(a, to)
	} // else the first probe's sample was lost, which the counts show
	a.set = nil
}

func (s *Source) deliver(a *assembly, to engine.Sink) {
	v := &a.values
	thread := v.u32(slotTID) != v.u32(slotTGID)
	var change engine.IDChange
	var ns engine.NSSet
	var old, now [len(engine.NSNames)]uint32
	switch a.set.family {
	case familyExit:
		s.exit(a, to)
		return
	case familyExecBegins, familyExecAtBegins, familyExecPath, familyExecNoReturn, familyExecEnds, familyExecAtEnds:
		s.execs.add(a)
		return
	case familyIDs:
		if change = v.changedIDs(); change == 0 || thread && !s.shared.Threads {
			return
		}
	case familyNS:
		if ns, old, now = v.changedNamespaces(); ns == 0 || thread && !s.shared.Threads {
			return
		}
	case familyFork, familyComm, familyPtrace:
		if a.set.family == familyFork && a.time < s.opened {
			return // its later state on another CPU may be missing
		}
		if thread && !s.shared.Threads || v.u32(slotByExec) != 0 {
			return
		}
	case familyExec:
		if s.endings.executed(v.u32(slotTGID), a.time); a.set.silent {
			return
		}
	case familyCgroup:
		if v.number(slotFromCgroup) == v.number(slotToCgroup) {
			return // moved in another hierarchy, or to other controllers
		}
	case familyPGID:
		if pgid := v.u32(slotNewPGID); pgid == v.u32(slotTGID) && pgid == v.u32(slotSID) {
			return // setsid
		}
		change = engine.ChangedPGID
	case familySID:
		// a session belongs to the group, whichever thread calls setsid
		change = engine.ChangedSID
	}
	ev := to.Reserve()
	a.fill(ev)
	ev.IDChange = change
	switch {
	case ns != 0:
		ev.SetChange(ns, &old, &now)
	case change == engine.ChangedPGID:
		ev.Task.PGID = v.u32(slotNewPGID)
	case a.set.family == familyFork, a.set.family == familyCgroup:
		ev.Creator = a.pid
	case a.set.family == familyPtrace && v.u32(slotRequest) == unix.PTRACE_ATTACH:
		ev.Tracer.PID, ev.Tracer.TID = a.pid, a.tid
	}
	a.fillTexts(ev, &s.walker)
	s.completer.complete(ev, v.number(slotArgEnd)-v.number(slotArgStart))
	s.insert(to, ev)
}

func (s *Source) exit(a *assembly, to engine.Sink) {
	v := &a.values
	what, status, certain := s.endings.classify(a)
	leader := v.u32(slotTGID) == v.u32(slotTID)
	if what == notTheGroup && leader {
		if ev := s.endings.takeParked(v.u32(slotTGID), v.number(slotStart)); ev != nil {
			setExit(ev, status)
			s.insert(to, ev)
		}
	}
	if s.shared.Threads && (what == notTheGroup || !leader) {
		ev := to.Reserve()
		a.fill(ev)
		ev.Thread = true
		a.fillThread(ev)
		setExit(ev, int32(v.u32(slotOwnCode)))
		s.insert(to, ev)
	}
	if what == notTheGroup {
		return
	}
	ev := to.Reserve()
	a.fill(ev)
	ev.Thread, ev.TID = false, ev.PID
	if s.shared.Reports(engine.EventReparent) {
		ev.Creator = v.nextParent(s.children)
	}
	if what == groupParked {
		s.endings.parked = append(s.endings.parked, ev)
		return
	}
	if certain {
		setExit(ev, status)
	}
	s.insert(to, ev)
}

func setExit(ev *engine.RawEvent, status int32) {
	ev.Task.Known |= engine.FieldExit.Set()
	ev.Task.Exit = engine.Exit{WaitStatus: status, Time: ev.Time}
}

func (s *Source) insert(to engine.Sink, ev *engine.RawEvent) {
	if ev.Kind == engine.KindExit {
		s.inserted += uint64(s.shared.InsertExit(to, ev))
		return
	}
	s.inserted++
	to.Insert(ev)
}

// Arm makes the next event wake the reader if the engine is idle. Otherwise the reader is woken
// only when a ring fills up.
func (s *Source) Arm(idle bool) bool {
	if s.probes == nil {
		return false
	}
	for _, c := range s.cpus {
		switch {
		case s.detached: // a wakeup would announce samples that never come
		case idle:
			c.arm()
		case c.woke:
			c.disarm() // the CPU is busy: a wakeup for each event would cost too much
		}
		c.woke = false
	}
	for _, c := range s.cpus {
		pending := c.Ring.Pending()
		expected := pending > 0 || c.now.set != nil || c.wakeupDeadline != 0 && clock.Monotonic() < c.wakeupDeadline
		if idle && expected || pending >= c.Ring.Size()/4 {
			return false
		}
	}
	return true
}

// Close removes the probes. Queued events are dropped.
func (s *Source) Close() error {
	if s.probes == nil {
		return nil
	}
	var errs []error
	for _, c := range s.cpus {
		errs = append(errs, c.close())
	}
	for _, line := range s.installed {
		if err := s.probes.Write(line); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, s.probes.Close(), s.completer.close())
	if s.online != nil {
		errs = append(errs, s.online.Close())
	}
	*s = Source{capabilities: s.capabilities}
	return errors.Join(errs...)
}
