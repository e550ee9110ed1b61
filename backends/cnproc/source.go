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

// Source implements [engine.Source] with the proc connector. After Open it needs no privilege,
// except that Close needs CAP_NET_ADMIN before Linux 6.6. Without it the kernel keeps counting the
// listener and sending messages.
type Source struct {
	shared source.Options
	opts   Options
	caps   engine.CapabilityTable
	proc   *procfs.Reader
	clock  *bootClock
	socket
	track   *tracker
	queue   *queue
	to      engine.Sink // of the current call of Populate
	size    int         // largest room of the sink so far
	handed  uint64      // events
	unread  uint64      // events that lack fields
	trimmer freelist.Timer
}

// socket is the connector's socket with its messages and losses.
type socket struct {
	fd        int
	pace      *pace.Pacer
	busy      bool // there were messages since Arm
	batch     *nlsocket.Batch
	current   message // the message being handled; a local variable would be allocated
	loss      loss
	silence   silence
	dropsBase uint32
	decode    uint64 // invalid messages
	foreign   uint64 // messages of user space
	received  uint64 // messages of the kernel, also answers to other listeners
}

// Open subscribes to the proc connector.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := setDefaults(&o); err != nil {
		return nil, err
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

// newSource returns a source without a socket and without /proc.
func newSource(shared source.Options, o Options) *Source {
	c := &bootClock{procfs.NewBootClock(), clock.Monotonic}
	s := &Source{shared: shared, opts: o, clock: c}
	s.fd, s.batch = -1, nlsocket.NewBatch(batchSize, sizeMaxRecord)
	s.track = &tracker{state: s.take, clock: c, loss: &s.loss}
	s.track.last6, s.track.workers = kernelversion.AtLeast("6.0"), kernelversion.AtLeast("5.12")
	s.track.early = make(map[uint32]uint64)
	s.track.dumps = dumps{spread: !kernelversion.AtLeast("5.16"), dumping: make(map[uint32]bool)}
	s.queue = &queue{clock: c, passes: s.shared.Passes, inits: make(map[uint32]bool)}
	return s
}

func (s *Source) open() (err error) {
	reads := s.opts.Enrich == source.EnrichFull
	if s.proc, err = procfs.OpenFor(&s.shared.Environ); err == nil {
		s.proc.Sparing = true
		if s.track.view = s.proc; reads {
			s.queue.proc = s.proc
		}
	} else if s.proc = nil; reads {
		return err
	}
	if err = listen(s.fd, s.batch); err != nil {
		return err
	}
	if s.opts.ReceiveBuffer < defaultReceiveBuffer {
		if err := nlsocket.SetReceiveBuffer(s.fd, s.opts.ReceiveBuffer); err != nil {
			return err
		}
	}
	s.dropsBase = nlsocket.Drops(s.fd)
	pacing := pace.Counting // which can wait
	if reads {
		pacing = pace.Reading
	}
	if s.pace, err = pace.New(pacing, s.fd); err != nil {
		return err
	}
	s.loss.counted = clock.Monotonic()
	s.silence = silence{counts: countsRequests(), sound: s.loss.counted, next: s.loss.counted + silenceCheck}
	s.track.learn()
	var shown engine.Fields
	if reads {
		s.learnInits()
		shown = s.proc.Readable()
	}
	s.caps = capabilities(&s.shared, shown, s.track, s.silence.counts)
	return s.shared.LeaveOut(&s.caps)
}

// learnInits looks for the first processes of pid namespaces.
func (s *Source) learnInits() {
	pids, _ := s.proc.PIDs()
	var ev engine.RawEvent
	for _, pid := range slices.Clone(pids) {
		ev.Reset()
		ev.PID = pid
		if _, err := s.proc.Read(pid, engine.FieldPIDNS.Set(), &ev); err == nil {
			s.queue.learnInit(&ev)
		}
	}
}

// Name is "cnproc".
func (s *Source) Name() string { return "cnproc" }

// Capabilities returns the capability table for the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

// FD polls readable while the socket has messages, or some time after the first one: see Arm.
func (s *Source) FD() int { return s.pace.FD() }

// Arm prepares FD. The socket stays readable while it holds messages, so only messages in the
// current batch prevent waiting. Unless the engine is idle, frequent messages wake it only at
// intervals.
func (s *Source) Arm(idle bool) bool {
	if s.batch.Next < s.batch.N {
		return false
	}
	s.pace.Arm(s.busy && !idle, s.silence.due(), clock.Monotonic())
	s.busy = false
	return true
}

// Close ends the subscription.
func (s *Source) Close() error {
	if s.fd < 0 {
		return nil
	}
	var ignored error // before Linux 6.6 the kernel counts listeners by these requests alone
	if !s.silence.mute {
		ignored = send(s.fd, request(0, opIgnore))
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

// Populate moves messages from the socket through the tracker into the queue. Events leave the
// queue when their processes are read from /proc and the socket is empty. Queued events count as
// events in the sink. If the sink is full, messages stay in the socket, which counts its drops.
func (s *Source) Populate(to engine.Sink) error {
	if s.fd < 0 {
		return os.ErrClosed
	}
	s.to, s.size = to, max(s.size, to.Room())
	if s.trimmer.Due(s.loss.counted) {
		s.track.trim()
		s.queue.trim()
	}
	for {
		switch full, emptied, err := s.receive(); {
		case full, err != nil: // a message in the socket may change what was read
			s.unread += s.queue.distrust(0)
			s.release()
			return err
		case emptied:
			if s.release(); !s.checkSilence() {
				s.track.idle()
				return nil
			}
		}
		// If the sink is half full, there is no time to read /proc.
		if 2*(to.Room()-len(s.queue.entries)) > s.size {
			s.queue.readAll()
		} else {
			s.unread += s.queue.distrust(s.queue.unread)
		}
	}
}

// release inserts the events into the sink.
func (s *Source) release() { s.handed += s.queue.release(s.to) }

// receive handles the rest of a batch of messages, or fetches a batch. full is set if the sink
// lacks room for them: the rest waits for the next call. A thread's exit can make two events, and
// one event too many does no harm. emptied is set if the socket was empty.
func (s *Source) receive() (full, emptied bool, err error) {
	room := func() bool { return s.to.Room()-len(s.queue.entries) > 0 }
	for s.batch.Next == s.batch.N {
		if !room() {
			return true, false, nil // messages left in the socket are counted there
		}
		now := s.clock.now()
		switch errno := s.batch.Receive(s.fd); errno {
		case 0:
			s.busy = true
		case unix.EAGAIN:
			if s.loss.overrun != 0 {
				s.lose()
			}
			s.loss.counted = now
			return false, true, nil
		case unix.EINTR:
		case unix.ENOBUFS:
			s.overran() // a flag, not a message: the socket dropped something
		default:
			return false, false, fmt.Errorf("receive from the proc connector: %w", errno)
		}
	}
	for s.batch.Next < s.batch.N {
		if !room() {
			return true, false, nil
		}
		data, genuine := s.batch.Message(s.batch.Next)
		s.batch.Next++
		s.message(data, genuine)
	}
	if s.loss.overrun != 0 && s.batch.N < batchSize { // the socket was empty after them
		s.lose()
	}
	return false, false, nil
}

// overran records a reported overrun. The socket has been empty since the previous report.
func (s *Source) overran() {
	if s.loss.overrun != 0 {
		s.lose()
	}
	s.loss.overrun = s.clock.now()
	s.loss.overruns++
}

// lose passes the gap of dropped messages to the tracker.
func (s *Source) lose() { s.track.lose(s.loss.gap(s.clock.now, s.drops)) }

// message handles one message.
func (s *Source) message(data []byte, genuine bool) {
	m := &s.current
	switch err := m.decode(data); {
	case !genuine, errors.Is(err, errNotOurs):
		s.foreign++
		return
	case err != nil:
		s.decode++
		return
	}
	s.silence.sound = max(s.silence.sound, m.time)
	s.received++
	if m.what != whatAck {
		if s.loss.overrun != 0 && m.time > s.loss.overrun {
			s.lose()
		}
		m.threads = !s.track.byPID.In[m.pid].single()
		s.queue.clear(m)
	}
	s.track.take(m)
}

// take queues the event of a tracker's fact, if it is wanted.
func (s *Source) take(f *fact) {
	silent := false
	switch {
	case f.kind == engine.KindGap:
		ev := s.to.Reserve()
		ev.SetGap(f.gap)
		if f.gap.CPU == engine.AllCPUs {
			s.unread += s.queue.distrust(0)
		}
		s.queue.add(ev, 0)
		return
	case f.kind == engine.KindExit && !f.thread && s.queue.inits[f.m.pid]:
		f.known = false
	case f.kind == engine.KindFork && !f.thread:
		delete(s.queue.inits, f.m.pid)
		silent = !s.shared.Reports(engine.EventFork) && s.shared.Reports(engine.EventExit)
	}
	if !silent && !s.wants(f) {
		return
	}
	ev, want := s.to.Reserve(), engine.FieldPIDNS.Set()
	if f.fill(ev); !silent {
		want = f.wanted(&s.shared)
	}
	s.queue.add(ev, want).silent = silent
}

// wants reports whether the event of a fact is delivered.
func (s *Source) wants(f *fact) bool {
	switch {
	case f.thread && !s.shared.Threads, !s.shared.Reports(f.kind.Events()):
		return false
	case f.kind == engine.KindExit:
		return !f.known || s.shared.Passes(f.status)
	}
	return true
}

// checkSilence handles an empty socket. It reports whether there is something to read now.
func (s *Source) checkSilence() bool {
	ask, silent := s.silence.check(s.received+s.foreign+s.loss.overruns, s.clock.now())
	switch {
	case ask:
		s.silence.asked = send(s.fd, request(0, opQuestion)) == nil
		return s.silence.asked
	case silent:
		g := engine.Gap{Cause: engine.LossUnseen, CPU: engine.AllCPUs, From: s.silence.sound, To: s.clock.now()}
		s.silence.sound = g.To
		s.track.lose(g)
		// A request without permission gets no answer: the next check finds silence again.
		send(s.fd, request(0, opListen))
	}
	return silent
}

// ShareBlocked lets to count the blocked processes.
func (s *Source) ShareBlocked(to *procfs.Reader) { s.proc.ShareBlocked(to) }

// Stats returns the counters. The loss is the larger of two figures: the socket's drops, and later
// the gaps in the sequence numbers, which also show messages that the kernel had no memory for.
func (s *Source) Stats() (engine.SourceStats, error) {
	st := engine.SourceStats{Bound: s.silence.fell, Unread: s.unread}
	s.loss.dropped = s.drops()
	st.Lost[engine.LossSocketFull] = s.loss.total()
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}

// drops asks the socket how many messages it dropped.
func (s *Source) drops() uint64 {
	if s.fd < 0 {
		return s.loss.dropped
	}
	return uint64(nlsocket.Drops(s.fd) - s.dropsBase)
}
