package kprobe

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"unsafe"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/internal/tracefs"
	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

// Source delivers what the probes in the kernel report. It implements
// [engine.Source]. After Open it uses only its descriptors and shared memory,
// so that privileges may be dropped and the root changed; then only a CPU that
// comes online cannot be added any more.
type Source struct {
	capabilities engine.CapabilityTable
	threads      bool
	ringSize     int

	probes    *tracefs.Probes
	installed []string // lines that remove the probes
	sets      []*set
	byID      []*probe // by the first two bytes of a record

	poll   int // epoll
	cpus   []*cpu
	online *online

	walker    walker
	completer *completer // nil: nothing is
	endings   endings
	ids       idChanges
	// inInitialNS tells that the pids in the records are those of the initial
	// pid namespace.
	inInitialNS bool

	handed    uint64
	lost      uint64 // records of first probes that are missing between others
	decode    uint64 // events that made no sense
	blind     bool   // a CPU could not be added, or was not seen at first
	finishing bool   // see Finish
	busy      uint   // Populate was called so often
}

// Name returns "kprobe".
func (s *Source) Name() string { return "kprobe" }

// Capabilities says which events and fields the installed probes bring.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.capabilities }

// FD is a descriptor over the rings of all CPUs.
func (s *Source) FD() int {
	if s.probes == nil {
		return -1
	}
	return s.poll
}

// Populate moves queued events to the sink. After Close it returns [os.ErrClosed].
func (s *Source) Populate(to engine.Sink) error {
	if s.probes == nil {
		return os.ErrClosed
	}
	s.followCPUs()
	for _, c := range s.cpus {
		c.mayLack()
	}
	// One record of each ring in turn, so that events come nearly in order.
	more := true
	for more && to.Room() > 0 {
		more = false
		for _, c := range s.cpus {
			if to.Room() > 0 && s.step(c, to) {
				more = true
			}
		}
	}
	if !more { // else there may be records to come that belong to these
		s.settleIDs(to)
	}
	s.late(to)
	gone := false
	for _, c := range s.cpus {
		if c.now.set != nil {
			c.now.values.keep()
		}
		c.ring.Release()
		gone = gone || c.gone
	}
	if gone {
		s.bury(to)
	}
	return nil
}

// Finish makes Populate hold nothing back: the end of a process whose leader's record has
// not come by the time the rings are empty is delivered without a status.
func (s *Source) Finish() { s.finishing = true }

// followCPUs looks which CPUs came or went, but not each time, as it is a system
// call: the announcement keeps FD readable until it was taken.
func (s *Source) followCPUs() {
	if s.busy++; s.busy%followEvery == 0 {
		s.online.follow(s)
	}
}

const followEvery = 4

// bury closes the rings of CPUs that went offline and were read to the end.
func (s *Source) bury(to engine.Sink) {
	s.cpus = slices.DeleteFunc(s.cpus, func(c *cpu) bool {
		if !c.gone || c.ring.Pending() > 0 {
			return false
		}
		if c.now.set != nil {
			s.finish(c, to)
		}
		s.lost += c.outstanding()
		c.close()
		return true
	})
}

// late gives up waiting for records that should have come long ago.
func (s *Source) late(to engine.Sink) {
	waiting := len(s.endings.parked) > 0
	for _, c := range s.cpus {
		waiting = waiting || c.now.set != nil
	}
	if !waiting {
		return
	}
	now := monotonic()
	for _, c := range s.cpus {
		if c.now.set != nil && c.ring.Pending() == 0 && now > c.now.time+maxJoin {
			s.finish(c, to)
		}
	}
	if s.finishing && !slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.ring.Pending() > 0 }) {
		now = math.MaxUint64
	}
	for to.Room() > 0 {
		ev := s.endings.overdue(now)
		if ev == nil {
			return
		}
		s.hand(to, ev) // without a status
	}
}

// maxJoin is how long the other records of an event are waited for, in
// nanoseconds. The kernel writes them one after the other, but the CPU may be a
// virtual one that does not run for a while. Whatever follows on that CPU ends the
// waiting, so it is long only where a record was lost and nothing follows.
const maxJoin = 1e9

func monotonic() uint64 {
	var ts unix.Timespec
	// It does not block, so that the scheduler need not know.
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

// step takes one record of a ring. It returns false when there is none.
func (s *Source) step(c *cpu, to engine.Sink) bool {
	rec, ok, bad := c.ring.Next()
	if bad {
		s.decode++
		return false
	}
	if !ok {
		return false
	}
	c.owes = 0
	switch {
	case perf.IsBell(rec):
		c.rang, c.owes = true, monotonic()+maxJoin
	case rec.Type == perf.RecordSample:
		var sample perf.Sample
		if err := sample.ParseSample(rec.Body); err != nil {
			s.decode++
			break
		}
		s.sample(c, to, &sample)
		if rec.Aside && c.now.set != nil {
			c.now.values.keep()
		}
	}
	// Of the lost records only the counts say which they were.
	return true
}

// probe returns the one whose raw record this is, nil if there is none.
func (s *Source) probe(raw []byte) *probe {
	if len(raw) < 2 {
		return nil
	}
	if id := int(binary.NativeEndian.Uint16(raw)); id < len(s.byID) {
		return s.byID[id]
	}
	return nil
}

// sample joins a record to those of the same event.
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
		last := &c.last[p.set.family]
		if sample.Count > *last {
			s.lost += sample.Count - *last - 1
			*last = sample.Count
		}
		a.time, a.cpu, a.pid, a.tid = sample.Time, sample.CPU, sample.PID, sample.TID
	} else if a.have == 0 {
		a.time = sample.Time
	}
	if len(sample.Raw) < p.layout.size {
		if p.part == 1 {
			s.decode++
			a.set = nil
		}
		return // an event without this part
	}
	a.values.add(p.number, sample.Raw)
	a.have |= p.part
	if a.have == p.set.all {
		s.finish(c, to)
	}
}

// finish makes an event of what was joined.
func (s *Source) finish(c *cpu, to engine.Sink) {
	a := &c.now
	if a.have&1 != 0 {
		s.deliver(a, to)
	} // else its fixed part was lost, which the counts tell
	a.set = nil
}

func (s *Source) deliver(a *assembly, to engine.Sink) {
	v := &a.values
	thread := v.u32(slotTID) != v.u32(slotTGID)
	if a.set.ofCurrent {
		thread = a.tid != a.pid
	}
	switch a.set.family {
	case familyExit:
		s.exit(a, to)
		return
	case familyFork:
		if thread && !s.threads {
			return
		}
	case familyExec:
		s.endings.executed(v.u32(slotTGID), a.time)
	case familyComm:
		if thread && !s.threads || a.known(slotByExec) && v.u32(slotByExec) != 0 {
			return
		}
	}
	var change engine.IDChange
	switch a.set.family {
	case familyUID, familyGID:
		s.ids.ask(a)
		return
	case familyIDs:
		if thread && !s.threads {
			return
		}
	case familySID:
		change = engine.ChangedSID // of the group, whichever thread did it
	}
	ev := to.Reserve()
	a.fill(ev)
	ev.IDChange = change
	if a.set.family == familyIDs {
		s.ids.told = append(s.ids.told, told{ev, v.number(slotCred), a.tid, a.whichIDs()})
		return
	}
	if a.set.family == familyFork && s.inInitialNS {
		ev.Creator = a.pid
	}
	a.fillTexts(ev, &s.walker)
	s.completer.complete(ev, v.number(slotArgEnd)-v.number(slotArgStart))
	s.hand(to, ev)
}

func (s *Source) exit(a *assembly, to engine.Sink) {
	v := &a.values
	what, status := s.endings.judge(a)
	if what == notTheGroup {
		if v.u32(slotTGID) == v.u32(slotTID) {
			if ev := s.endings.take(v.u32(slotTGID), v.number(slotStart)); ev != nil {
				setExit(ev, status)
				s.hand(to, ev)
			}
		}
		if !s.threads {
			return
		}
	}
	ev := to.Reserve()
	a.fill(ev)
	switch what {
	case notTheGroup:
		ev.Thread = true
		ev.Task.Known &= ofGroup // the rest is the leader's
		setExit(ev, status)
	case groupEnded:
		ev.Thread, ev.TID = false, ev.PID
		setExit(ev, status)
	case groupParked:
		ev.Thread, ev.TID = false, ev.PID
		s.endings.parked = append(s.endings.parked, parkedExit{ev})
		return
	}
	s.hand(to, ev)
}

// ofGroup are the fields that all threads of a group share.
const ofGroup = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID | 1<<engine.FieldPGID | 1<<engine.FieldSID | 1<<engine.FieldTTY)

func setExit(ev *engine.RawEvent, status int32) {
	ev.Task.Known |= engine.FieldExit.Set()
	ev.Task.Exit = engine.Exit{WaitStatus: status, Time: ev.Time}
}

func (s *Source) hand(to engine.Sink, ev *engine.RawEvent) {
	s.handed++
	to.Insert(ev)
}

// Arm lets the next event wake the reader if it is idle; else only a ring that
// fills up does.
func (s *Source) Arm(idle bool) bool {
	if s.probes == nil {
		return false
	}
	for _, c := range s.cpus {
		switch {
		case idle:
			c.arm()
		case c.rang:
			c.disarm() // a busy CPU: its events need not wake anybody
		}
		c.rang = false
	}
	for _, c := range s.cpus {
		pending := c.ring.Pending()
		comes := pending > 0 || c.now.set != nil || c.owes != 0 && monotonic() < c.owes
		if idle && comes || pending >= c.ring.Size()/4 {
			return false
		}
	}
	return true
}

// Close removes the probes; what is queued is gone.
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
		errs = append(errs, s.online.close())
	}
	if s.poll >= 0 {
		errs = append(errs, unix.Close(s.poll))
	}
	*s = Source{capabilities: s.capabilities, poll: -1}
	return errors.Join(errs...)
}
