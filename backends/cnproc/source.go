package cnproc

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/freelist"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Source is the proc connector as an [engine.Source]. It needs no privilege after Open, except that
// Close needs CAP_NET_ADMIN before Linux 6.6: without it the kernel keeps its count of listeners,
// and keeps making messages.
type Source struct {
	shared source.Options
	opts   Options
	caps   engine.CapabilityTable
	proc   *procfs.Reader
	clock  *bootClock
	socket
	counters

	track      *tracker
	enrich     *enricher
	to         engine.Sink // of the current call of Populate
	size       int         // largest room of the sink so far
	trimmer    freelist.Timer
	young      []retired       // processes that are to be read when they are older
	probe      engine.RawEvent // buffer to read them into
	nextLook   uint64          // when the tracker wants to look at groups, 0 for not at all
	showStatus bool            // /proc shows the status of a process that has ended
	finishing  bool            // see Finish
}

// socket is the connector's socket, with its messages and their losses.
type socket struct {
	fd        int
	pace      *pace.Pacer
	busy      bool // there were messages since Arm
	filtered  bool // the kernel leaves out kinds
	batch     *nlsocket.Batch
	current   message // the message being handled; a local variable would be allocated
	loss      loss
	silence   silence
	dropsBase uint32
}

// counters count messages, and delivered events.
type counters struct {
	handed   uint64
	unread   uint64
	decode   uint64
	foreign  uint64 // of user space
	acks     uint64 // answers to other listeners, which are numbered like events
	received uint64 // of the kernel, that count as events
}

var _ interface {
	engine.Source
	engine.Finisher
	engine.Holder
} = (*Source)(nil)

// Open subscribes to the proc connector.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := setDefaults(&o); err != nil {
		return nil, err
	}
	if shared.HoldTime > 0 { // events must arrive in time to be put in order
		o.DoubtTime = min(o.DoubtTime, max(shared.HoldTime/4, 1))
	}
	if err := shared.CheckTypes(); err != nil {
		return nil, err
	}
	fd, err := dial(&o)
	if err != nil {
		return nil, err
	}
	s := newSource(shared, o)
	s.fd = fd
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newSource returns a source without a socket.
func newSource(shared source.Options, o Options) *Source {
	s := &Source{shared: shared, opts: o, clock: newClock()}
	s.fd, s.batch = -1, nlsocket.NewBatch(batchSize, sizeMaxRecord)
	s.showStatus = kernelversion.AtLeast("6.1")
	s.stages()
	return s
}

// stages makes the tracker and the enricher.
func (s *Source) stages() {
	var v view
	var r reader
	if s.proc != nil {
		v = s.proc
		s.proc.Sparing = true
		if s.opts.Enrich == EnrichFull {
			r = s.proc
		}
	}
	s.loss = loss{clock: s.clock}
	s.track = newTracker(v, s.clock, &s.loss, kernelversion.AtLeast("6.0"), s.take)
	s.track.spreads, s.track.workers = !kernelversion.AtLeast("5.16"), kernelversion.AtLeast("5.12")
	s.enrich = newEnricher(r, s.clock, &s.loss, uint64(s.opts.DoubtTime))
}

func (s *Source) open() (err error) {
	environ, err := s.shared.Environ.Compile()
	if err != nil {
		return err
	}
	if s.proc, err = procfs.Open(); err != nil {
		if s.opts.Enrich == EnrichFull {
			return err
		}
		s.proc = nil
	} else if environ != nil {
		s.proc.ReadEnviron(environ.Set)
	}
	s.stages()
	if s.filtered, err = listen(s.fd, s.batch, s.kernelFilter()); err != nil {
		return err
	}
	if s.opts.ReceiveBuffer < defaultReceiveBuffer {
		if err := nlsocket.SetReceiveBuffer(s.fd, s.opts.ReceiveBuffer); err != nil {
			return err
		}
	}
	s.dropsBase = nlsocket.Drops(s.fd)
	if s.pace, err = pace.New(s.pacing(), s.fd); err != nil {
		return err
	}
	need := allKinds
	if s.filtered {
		need = s.kernelFilter()
	}
	s.loss.filtered = s.filtered
	s.track.lives = need&Fork != 0 && need&Exit != 0
	s.enrich.births, s.enrich.passes = need&Fork != 0, s.shared.Passes
	s.loss.noted = clock.Monotonic()
	s.silence = silence{counts: countsRequests(), sound: s.loss.noted, next: s.loss.noted + silenceCheck}
	s.track.learn()
	s.learnInits()
	s.caps = s.capabilities()
	return s.shared.LeaveOut(&s.caps)
}

// learnInits looks for the first processes of pid namespaces.
func (s *Source) learnInits() {
	if s.opts.Enrich != EnrichFull {
		return
	}
	pids, _ := s.proc.PIDs()
	for _, pid := range slices.Clone(pids) {
		s.learnInit(pid)
	}
}

func (s *Source) learnInit(pid uint32) {
	s.probe.Reset()
	s.probe.PID = pid
	if _, err := s.proc.Read(pid, engine.FieldPIDNS.Set(), &s.probe); err == nil {
		s.enrich.learnInit(&s.probe)
	}
}

// initAge is the age, in ns, at which a process is read to check whether it is the first of a pid
// namespace, if no event of its birth is wanted.
const initAge = 20_000_000

// learnYoung reads the processes that have reached initAge.
func (s *Source) learnYoung(now uint64) {
	n := 0
	for ; n < len(s.young) && s.young[n].time+initAge <= now; n++ {
		if p, ok := s.track.processes.In[s.young[n].pid]; ok && p.born == s.young[n].time && !p.over {
			s.learnInit(s.young[n].pid)
		}
	}
	s.young = append(s.young[:0], s.young[n:]...)
}

// youngDue returns when the next process reaches initAge, 0 for never.
func (s *Source) youngDue() uint64 {
	if len(s.young) == 0 {
		return 0
	}
	return s.young[0].time + initAge
}

// pacing returns how often FD wakes under load. Counting alone can wait.
func (s *Source) pacing() pace.Options {
	if s.opts.Enrich == EnrichFull {
		return pace.Reading
	}
	return pace.Counting
}

// Name is "cnproc".
func (s *Source) Name() string { return "cnproc" }

// FD polls readable while the socket has messages, or some time after the first
// of them: see Arm.
func (s *Source) FD() int { return s.pace.FD() }

// Arm prepares FD. The socket stays readable as long as it holds messages, so only messages that
// were already received prevent waiting. While the engine is not idle, frequent messages wake it at
// intervals only. Events in the queue of the enricher, and groups to look at, wake it in time.
func (s *Source) Arm(idle bool) bool {
	if s.batch.Next < s.batch.N {
		return false
	}
	next := soonest(soonest(s.enrich.due(), s.nextLook), soonest(s.silence.due(), s.youngDue()))
	s.pace.Arm(s.busy && !idle, next, clock.Monotonic())
	s.busy = false
	return true
}

// Held returns the time of the first event in the queue of the enricher.
func (s *Source) Held() (oldest uint64, ok bool) {
	if s.enrich.len() == 0 {
		return 0, false
	}
	return s.enrich.at(s.enrich.head).ev.Time, true
}

// Finish makes Populate deliver all events without waiting.
func (s *Source) Finish() { s.finishing = true }

// Close ends the subscription.
func (s *Source) Close() error {
	if s.fd < 0 {
		return nil
	}
	// Before Linux 6.6 the kernel counts listeners by these requests alone.
	var ignored error
	if !s.silence.mute {
		ignored = send(s.fd, request(0, opIgnore, false, 0))
	}
	err := unix.Close(s.fd)
	s.fd = -1
	if s.pace != nil {
		s.pace.Close()
	}
	if s.proc != nil {
		s.proc.Close()
	}
	if err == nil && ignored != nil {
		err = fmt.Errorf("end the subscription to the proc connector: %w", ignored)
	}
	return err
}

// Populate moves the messages in the socket through the tracker into the queue of the enricher, and
// the certain events of the queue to the sink. Events in the queue count as events in the sink, so
// that a full sink leaves messages in the socket, where they are counted.
func (s *Source) Populate(to engine.Sink) error {
	if s.fd < 0 {
		return os.ErrClosed
	}
	s.to = to
	s.size = max(s.size, to.Room())
	if s.trimmer.Due(s.loss.noted) {
		s.trim()
	}
	hold := s.mayHold()
	s.enrich.delay = 0
	if hold && s.pace.Timed() {
		s.enrich.delay = s.pace.Interval()
	} else {
		s.enrich.hurry()
	}
	for {
		full, emptied, err := s.receive()
		if hold { // otherwise no later message could correct the reading
			s.enrich.readAll()
		}
		switch {
		case err != nil:
			s.release(true)
			return err
		case full:
			s.noteRest()
			s.release(true)
			return nil
		case !emptied:
			s.release(false)
		case s.checkSilence():
		default:
			s.track.settled(s.loss.noted)
			s.nextLook = s.track.look()
			s.learnYoung(s.loss.noted)
			s.release(!hold)
			return nil
		}
	}
}

// trim releases memory that was unused since the last call.
func (s *Source) trim() {
	s.enrich.trim()
	s.track.trim()
	s.young = freelist.Shrink(s.young)
}

// mayHold reports whether events may wait in the queue. They do not wait at the end, nor if the
// sink is half full: its events get younger then, and an event that waits could come too late.
func (s *Source) mayHold() bool {
	return !s.finishing && 2*(s.to.Room()-s.enrich.len()) > s.size
}

// room reports whether there is room for the events of another message. A thread's exit
// can make two; one too many does no harm.
func (s *Source) room() bool { return s.to.Room()-s.enrich.len() > 0 }

// release inserts the certain events into the sink or, with force set, all. Every message in the
// batch has been noted.
func (s *Source) release(force bool) {
	switch {
	case !s.loss.congested && s.batch.Next == s.batch.N:
		s.tellOverrun()
	case force:
		if g, ok := s.loss.tellEarly(); ok {
			s.take(&fact{kind: engine.KindGap, gap: s.beforeRest(g)})
		}
	}
	n, unread := s.enrich.release(s.to, s.loss.noted, force)
	s.handed += n
	if !s.finishing {
		s.unread += unread
	}
}

// receive handles the rest of a batch of messages, or fetches a batch. full is set if the sink has
// no room for all of them, so that the rest is for the next call. emptied is set if the socket was
// empty.
func (s *Source) receive() (full, emptied bool, err error) {
	if s.batch.Next == s.batch.N {
		if !s.room() {
			return true, false, nil // messages left in the socket are counted there
		}
		if emptied, err = s.fetch(); err != nil {
			return false, false, err
		}
	}
	for s.batch.Next < s.batch.N {
		if !s.room() {
			return true, emptied, nil
		}
		data, genuine := s.batch.Message(s.batch.Next)
		s.batch.Next++
		s.message(data, genuine)
	}
	return false, emptied, nil
}

// fetch adds messages from the socket to the batch, up to its size. It does not mix messages sent
// after an overrun with messages held at the overrun. It reports whether the socket is empty.
func (s *Source) fetch() (emptied bool, err error) {
	for {
		now := clock.Monotonic()
		switch errno := s.batch.Receive(s.fd); errno {
		case 0:
			full := s.batch.N == batchSize
			if s.busy = true; s.arrived(full) || full {
				return false, nil
			}
		case unix.EAGAIN:
			if s.loss.emptied(now, s.drops) {
				s.tellOverrun()
			}
			return true, nil
		case unix.EINTR:
		case unix.ENOBUFS:
			// A flag, not a message: the socket dropped something.
			s.overran(s.drops)
		default:
			return false, fmt.Errorf("receive from the proc connector: %w", errno)
		}
	}
}

// arrived records that messages were received. Unless full is set there was room for more of them:
// then the socket was empty, or is about to report an overrun after it was empty. It reports
// whether these messages may predate an overrun without a reported gap, while the next ones do not.
func (s *Source) arrived(full bool) bool {
	o := &s.loss.overrun
	if o.drained {
		s.tellOverrun()
	}
	o.drained = !full && o.reported != 0
	return o.drained
}

// overran records the report of an overrun: the socket has been empty since the one before.
func (s *Source) overran(drops func() uint64) {
	s.tellOverrun()
	s.loss.overran(drops)
}

// tellOverrun passes the gap of the dropped messages to the tracker.
func (s *Source) tellOverrun() {
	if g, early, ok := s.loss.tell(); ok {
		s.track.lose(s.beforeRest(g), early)
	}
}

// beforeRest adapts a gap that comes before the messages in the batch: if the sink has no room to
// put them in order, the gap begins no later than they do.
func (s *Source) beforeRest(g engine.Gap) engine.Gap {
	if s.to.Room()-s.enrich.len() < s.batch.N-s.batch.Next {
		s.rest(func(m *message) { g.From = min(g.From, m.time) })
	}
	return g
}

// noteRest applies the unhandled messages to the queued events.
func (s *Source) noteRest() {
	s.rest(func(m *message) {
		m.threads = true // the messages before it may show them
		s.enrich.note(m)
	})
}

// rest visits the unhandled messages.
func (s *Source) rest(visit func(*message)) {
	var m message
	for i := s.batch.Next; i < s.batch.N; i++ {
		if data, genuine := s.batch.Message(i); genuine && m.decode(data) == nil {
			visit(&m)
		}
	}
}

// message handles one message.
func (s *Source) message(data []byte, genuine bool) {
	if !genuine {
		s.foreign++
		return
	}
	m := &s.current
	*m = message{}
	switch err := m.decode(data); {
	case err == nil:
	case errors.Is(err, errNotOurs):
		s.foreign++
		return
	default:
		s.decode++
		return
	}
	s.silence.sound = max(s.silence.sound, m.time)
	if m.what == whatAck {
		s.acks++
	} else {
		s.received++
		if !s.loss.beforeOverrun(m) {
			s.tellOverrun()
		}
		m.threads = !s.enrich.births || s.track.threads(m)
		s.enrich.note(m)
	}
	s.track.take(m)
}

// take queues the event of a tracker's fact, if it is wanted.
func (s *Source) take(f *fact) {
	switch {
	case f.kind == engine.KindGap && f.m == nil:
		s.enrich.distrust(&f.gap)
	case f.kind == engine.KindExit && !f.thread && !f.older && s.enrich.inits[f.m.pid]:
		f.known = false
	case f.kind == engine.KindFork && !f.thread:
		delete(s.enrich.inits, f.m.pid)
		if s.opts.Enrich == EnrichFull && !s.shared.Reports(engine.EventFork) {
			s.young = append(s.young, retired{f.m.pid, f.m.time})
		}
	}
	if f.kind != engine.KindGap && !s.wants(f) {
		return
	}
	ev := s.to.Reserve()
	switch {
	case f.kind == engine.KindGap:
		ev.SetGap(f.gap)
		s.enrich.add(ev, 0)
	case f.held():
		f.fill(ev)
		s.enrich.addEnd(ev, s.wanted(f), f)
	default:
		f.fill(ev)
		s.enrich.add(ev, s.wanted(f))
	}
}

// wanted returns the fields that are read from /proc for the event of a fact.
func (s *Source) wanted(f *fact) (want engine.Fields) {
	switch {
	case f.thread, f.older, f.held() && f.m.tid == f.m.pid:
		return 0 // the values in /proc are not its own
	case f.kind == engine.KindFork:
		return procfs.Readable &^ engine.FieldLogin.Set() // inherited from the creator
	case f.kind == engine.KindExec:
		return procfs.Readable
	case f.kind == engine.KindExit && s.failuresOnly():
		want = ofZombie
	case f.kind == engine.KindExit:
		want = engine.FieldExit.Set()
	case f.m.what == UID:
		want = engine.SetOf(engine.FieldSUID, engine.FieldCaps, engine.FieldComm) | f.ofOther()
	case f.m.what == GID:
		want = engine.SetOf(engine.FieldSGID, engine.FieldComm) | f.ofOther()
	}
	if f.doubtful || !s.shared.Reports(engine.EventFork) && f.kind != engine.KindExit {
		want |= engine.FieldStart.Set()
	}
	if !s.showStatus {
		want &^= engine.FieldExit.Set()
	}
	return want
}
