package procpoll

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/wait"
)

// Source is /proc, read at an interval, as an [engine.Source]. Populate reads it, if it is time to.
type Source struct {
	shared source.Options
	opts   Options
	proc   view
	reader *procfs.Reader // which is proc, but in tests
	count  func() (uint64, error)
	stat   *counter
	fds    *pidfds // nil before Linux 5.3
	timer  int
	caps   engine.CapabilityTable
	now    func() uint64         // CLOCK_MONOTONIC
	offset func() uint64         // CLOCK_BOOTTIME less that
	exists func(pid uint32) bool // also if /proc hides it
	// wholeStatus is set if /proc shows the wait status of a process that was not waited for
	// yet: Linux 6.1; before, it shows that of the leader.
	wholeStatus bool

	known     map[uint32]process
	fresh     []birth // found in the reading in its course
	reading   uint32  // its number
	cut       bool    // the sink had no room for all that it shows
	ended     uint64  // when the latest reading ended
	due       uint64  // time of the next
	finishing bool    // the next is due now
	balance   balance

	to     engine.Sink // of the Populate in its course
	size   int         // the most room that it had
	handed uint64
}

// view is what is read of /proc: a [procfs.Reader].
type view interface {
	PIDs() ([]uint32, error)
	Status(pid uint32) (st procfs.Status, start uint64, err error)
	Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error)
	ExitStatus(pid uint32) (status int32, start uint64, ok bool)
	OpenImage(pid uint32) (fd int32, ok bool)
	ImageLives(fd int32) bool
}

var _ interface {
	engine.Source
	engine.Finisher
} = (*Source)(nil)

// Open reads /proc for the first time: the processes that exist are no events.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := setDefaults(&o); err != nil {
		return nil, err
	}
	if err := shared.CheckTypes(); err != nil {
		return nil, err
	}
	if shared.Threads {
		return nil, fmt.Errorf("report threads: /proc is read for processes alone: %w", errors.ErrUnsupported)
	}
	s := &Source{
		shared: shared, opts: o, timer: -1, known: make(map[uint32]process), now: clock.Monotonic,
		offset: func() uint64 {
			boot := clock.Boottime()
			return boot - min(clock.Monotonic(), boot)
		},
		exists:      func(pid uint32) bool { return !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) },
		wholeStatus: kernelversion.AtLeast("6.1"),
	}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Source) open() (err error) {
	if s.reader, err = procfs.OpenFor(&s.shared.Environ); err != nil {
		return err
	}
	s.proc = s.reader
	if s.stat, err = openCounter(); err != nil {
		return err
	}
	s.count = s.stat.read
	if s.fds, err = newPidfds(); err != nil {
		return fmt.Errorf("create epoll descriptor: %w", err)
	}
	if s.timer, err = wait.Timer(); err != nil {
		return err
	}
	s.caps = s.capabilities(s.reader.Readable())
	if err := s.shared.LeaveOut(&s.caps); err != nil {
		return err
	}
	return s.first()
}

// Name is "procpoll".
func (s *Source) Name() string { return "procpoll" }

// Capabilities returns what this source reports on the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

// FD is a timer, which polls readable when /proc is to be read.
func (s *Source) FD() int { return s.timer }

// Arm reports whether the next reading is at its time: it is now if the sink had no room for all
// that the latest one has shown.
func (s *Source) Arm(bool) bool { return !s.cut }

// Finish makes the next Populate read /proc, for what has happened since the latest reading.
func (s *Source) Finish() { s.finishing = true }

// Populate reads /proc if it is time to.
func (s *Source) Populate(to engine.Sink) error {
	if s.timer < 0 {
		return os.ErrClosed
	}
	if s.now() < s.due && !s.finishing && !s.cut {
		return nil
	}
	if s.size = max(s.size, to.Room()); to.Room() < min(atOnce, s.size) {
		return nil // nothing of a reading could be told
	}
	s.to, s.finishing = to, false
	if err := s.read(); err != nil {
		return err
	}
	s.schedule()
	return nil
}

// schedule sets the time of the next reading. One that is late does not make the next ones early.
func (s *Source) schedule() {
	s.due = max(s.due+uint64(s.opts.Interval), s.now())
	wait.SetTimer(s.timer, s.due)
}

// Close closes all descriptors.
func (s *Source) Close() error {
	s.forget()
	if s.fds != nil {
		unix.Close(s.fds.epoll)
		s.fds = nil
	}
	if s.stat != nil {
		unix.Close(s.stat.fd)
		s.stat = nil
	}
	if s.reader != nil {
		s.reader.Close()
		s.reader = nil
	}
	if s.timer >= 0 {
		unix.Close(s.timer)
		s.timer = -1
	}
	return nil
}

// Stats returns the counters. What was missed is counted in tasks: a process that was missed is
// one, with its FORK, its EXIT and each EXEC; a thread is one too.
func (s *Source) Stats() (engine.SourceStats, error) {
	var st engine.SourceStats
	st.Lost[engine.LossMissed] = s.balance.missed
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}
