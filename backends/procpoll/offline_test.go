package procpoll

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/proctext"
)

func TestParseCounter(t *testing.T) {
	for text, want := range map[string]uint64{
		"cpu  1 2\nctxt 5\nprocesses 77\nprocs_running 1\n": 77, "processes 77\n": 0, "cpu 1\nprocesses x\n": 0, "cpu 1\nprocesses 7": 0, "": 0,
	} {
		if got, ok := parseCounter([]byte(text)); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func FuzzParseCounter(f *testing.F) {
	f.Add([]byte("cpu  1 2\nprocesses 77\nprocs_running 1\n"))
	f.Add([]byte("\nprocesses 18446744073709551616\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseCounter(text); !ok && n != 0 {
			t.Errorf("%d of a text without a number", n)
		}
	})
}

// machine is a model of a kernel: what lives, and what it has counted.
type machine struct {
	now   uint64
	tasks uint64 // made since the boot
	lives map[uint32]*life
	then  func() // what happens in the middle of a reading
}

type life struct {
	start, memory uint64
	threads       uint32
	forked        bool
	zombie        bool
	executes      bool // while its status is read
}

func (m *machine) PIDs() (pids []uint32, err error) {
	for pid := range m.lives {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	if m.then != nil {
		m.then()
	}
	return pids, nil
}

func (m *machine) Status(pid uint32) (st procfs.Status, start uint64, err error) {
	l := m.lives[pid]
	if l == nil {
		return st, 0, procfs.ErrVanished
	}
	st = procfs.Status{State: 'S', Threads: l.threads, Memory: l.memory, ForkNoExec: l.forked, Kthread: false}
	if l.executes { // the flags are of after the exec, the memory is of before
		st.ForkNoExec = false
		l.memory, l.forked, l.executes = l.memory+1, false, false
	}
	if l.zombie {
		st.State, st.Memory, st.Threads = 'Z', 0, 1
	}
	return st, l.start, nil
}

func (m *machine) Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error) {
	st, start, err := m.Status(pid)
	if err == nil {
		ev.Task.Start, ev.Task.PPID = start, 1
		ev.Task.Known |= engine.SetOf(engine.FieldStart, engine.FieldPPID)
		ev.Set(engine.FieldComm, []byte("model"))
	}
	return st, err
}

func (m *machine) ExitStatus(pid uint32) (status int32, start uint64, ok bool) {
	l := m.lives[pid]
	return 0x700, l.start, l.zombie
}

func (m *machine) OpenImage(uint32) (fd int32, ok bool) { return none, false }

func (m *machine) ImageLives(int32) bool { return true }

// watching returns a source of a model.
func watching(t *testing.T, m *machine) *Source {
	t.Helper()
	s := &Source{
		proc: m, count: func() (uint64, error) { return m.tasks, nil }, timer: -1, known: make(map[uint32]process), wholeStatus: true,
		now: func() uint64 { return m.now }, offset: func() uint64 { return 0 },
		exists: func(pid uint32) bool { return m.lives[pid] != nil }, opts: Options{Interval: time.Second},
	}
	if err := s.first(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Source) readTo(t *testing.T, to engine.Sink) {
	t.Helper()
	s.to, s.size = to, max(s.size, to.Room())
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens, made = seen + missed, each process that is seen has its FORK before its EXIT,
// once, and the times of a reading are after those of the one before.
func TestBalance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m := &machine{now: 1e9, tasks: 1000, lives: make(map[uint32]*life)}
		made, next := 0, uint32(100)
		fork := func() {
			next++
			if rnd.IntN(3) == 0 { // a pid is used again
				next = 100 + rnd.Uint32N(20)
			}
			if m.lives[next] == nil {
				m.lives[next] = &life{start: m.now / proctext.Tick * proctext.Tick, memory: 1 + rnd.Uint64N(9), threads: 1, forked: rnd.IntN(2) == 0}
				m.tasks++
				made++
			}
		}
		act := func() {
			for range rnd.IntN(6) {
				m.now += rnd.Uint64N(30e6)
				switch rnd.IntN(4) {
				case 0, 1:
					fork()
				case 2:
					for pid := range m.lives {
						delete(m.lives, pid)
						break
					}
				default:
					for _, l := range m.lives {
						if l.memory++; rnd.IntN(2) == 0 {
							l.threads++
							m.tasks++
							made++
						}
						l.forked = false
						break
					}
				}
			}
		}
		act()
		s := watching(t, m)
		made = 0
		var evs conform.Events
		from := s.ended
		for range 20 {
			act()
			m.then = nil
			if rnd.IntN(2) == 0 {
				m.then = act
			}
			m.now++
			n := len(evs)
			s.readTo(t, &evs)
			for _, ev := range evs[n:] {
				if ev.Kind != engine.KindGap && (ev.Time < from || ev.Time > m.now) {
					t.Fatalf("%v at %d, in a reading after %d, now %d", ev.Kind, ev.Time, from, m.now)
				}
			}
			from = s.ended
		}
		m.then = nil
		m.now++
		s.readTo(t, &evs) // nothing happens meanwhile: now the balance is exact
		if got := s.balance.seen + s.balance.missed; got != uint64(made) {
			t.Fatalf("%d made, %d seen and %d missed", made, s.balance.seen, s.balance.missed)
		}
		var told uint64
		alive := make(map[uint32]bool)
		for _, ev := range evs {
			switch {
			case ev.Kind == engine.KindGap:
				told += ev.Gap.Count
			case ev.Kind == engine.KindFork && alive[ev.PID]:
				t.Fatalf("%d was born twice", ev.PID)
			case ev.Kind == engine.KindFork:
				alive[ev.PID] = true
			case ev.Kind == engine.KindExit:
				delete(alive, ev.PID)
			}
			if !ev.Task.Known.Has(engine.FieldStart) && ev.Kind != engine.KindGap || ev.Task.Carried&constant != 0 ||
				(ev.Task.Known&^ev.Task.Carried)&^(constant|engine.FieldExit.Set()) != 0 {
				t.Fatalf("%v: known %v, carried %v", ev.Kind, ev.Task.Known, ev.Task.Carried)
			}
		}
		if told != s.balance.missed {
			t.Fatalf("%d missed, gaps tell of %d", s.balance.missed, told)
		}
		for pid := range alive {
			if m.lives[pid] == nil {
				t.Fatalf("the end of %d was not told", pid)
			}
		}
	}
}

// A sink without room gets the rest with a later reading, and nothing is counted as missed for it.
func TestNoRoom(t *testing.T) {
	m := &machine{now: 1e9, lives: make(map[uint32]*life)}
	s := watching(t, m)
	for pid := range uint32(50) {
		m.lives[100+pid] = &life{start: m.now, memory: 7, threads: 1}
		m.tasks++
	}
	sum := 0
	for range 60 {
		m.now += 1e6
		b := engine.NewBuffer(5)
		s.readTo(t, b)
		sum += b.Len()
	}
	if sum != 100 || s.balance.missed != 0 || s.cut {
		t.Errorf("%d events of 50 processes, %d missed, more to come: %v", sum, s.balance.missed, s.cut)
	}
}

// What happens in an interval is told in the next reading.
func TestChanges(t *testing.T) {
	m := &machine{now: 1e9, lives: map[uint32]*life{5: {start: 1e8, memory: 7, threads: 1}}}
	s := watching(t, m)
	kinds := func() (list []string) {
		m.now += 1e8
		var evs conform.Events
		s.readTo(t, &evs)
		for _, ev := range evs {
			list = append(list, ev.Kind.String())
		}
		return list
	}
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"nothing", func() {}, nil},
		{"an exec", func() { m.lives[5].memory = 8 }, []string{"EXEC"}},
		{"in the middle of an exec", func() { m.lives[5].memory = 0 }, nil},
		{"the exec is complete", func() { m.lives[5].memory = 9 }, []string{"EXEC"}},
		{"a thread", func() { m.lives[5].threads, m.tasks = 2, m.tasks+1 }, nil},
		{"a birth", func() { m.lives[6], m.tasks = &life{start: m.now, memory: 7, threads: 1, forked: true}, m.tasks+1 }, []string{"FORK"}},
		{"its exec", func() { m.lives[6].forked = false }, []string{"EXEC"}},
		{"a zombie", func() { m.lives[6].zombie = true }, []string{"EXIT"}},
		{"which is waited for", func() { delete(m.lives, 6) }, nil},
		{"a birth and an end, and perhaps an exec", func() {
			m.lives[7], m.tasks = &life{start: m.now, threads: 1, zombie: true}, m.tasks+1
		}, []string{"FORK", "EXIT"}},
		{"another process of the pid", func() { m.lives[5], m.tasks = &life{start: m.now, memory: 3, threads: 1, forked: true}, m.tasks+1 }, []string{"EXIT", "FORK"}},
		{"two that are missed", func() { m.tasks += 2 }, []string{"GAP"}},
	} {
		m.now += 1e8
		c.change()
		if got := kinds(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if st, _ := s.Stats(); st.Lost[engine.LossMissed] != 2 || st.Produced != s.handed+2 {
		t.Errorf("%+v", st)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		want     bool
	}{{0, true}, {time.Millisecond, true}, {time.Hour, true}, {time.Microsecond, false}, {-1, false}, {2 * time.Hour, false}} {
		if err := Validate(Options{Interval: c.interval}); (err == nil) != c.want {
			t.Errorf("%v: %v", c.interval, err)
		}
	}
	if _, err := Open(source.Options{Threads: true}, Options{}); err == nil {
		t.Error("threads are accepted")
	}
}

// A status from the middle of an exec has the old image and says that a new one was executed: the
// exec is told once.
func TestReadAmidExec(t *testing.T) {
	m := &machine{now: 1e9, tasks: 1000, lives: map[uint32]*life{
		5: {start: 1e8, memory: 10, threads: 1, forked: true},
		6: {start: 1e8, memory: 20, threads: 1, forked: true, executes: true},
	}}
	s := watching(t, m)
	m.lives[5].executes = true
	m.lives[7] = &life{start: 1e9, memory: 30, threads: 1, forked: true, executes: true}
	m.tasks++
	var evs conform.Events
	for range 3 {
		m.now += 1e9
		s.readTo(t, &evs)
	}
	execs := make(map[uint32]int)
	for _, ev := range evs {
		if ev.Kind == engine.KindExec {
			execs[ev.PID]++
		}
	}
	if want := map[uint32]int{5: 1, 7: 1}; !maps.Equal(execs, want) {
		t.Errorf("execs by pid: %v, not %v", execs, want)
	}
}

// The status of a leader may lack that another thread has dumped core.
func TestStatusOfLeader(t *testing.T) {
	for status, want := range map[int32]bool{
		0: true, 3 << 8: true, int32(unix.SIGTERM): true, int32(unix.SIGKILL): true,
		int32(unix.SIGSEGV): false, int32(unix.SIGSYS): false, 0x80 | int32(unix.SIGSEGV): true,
	} {
		if got := ofProcess(status); got != want {
			t.Errorf("%#x: %v", status, got)
		}
	}
}

// A pidfd that may be of another process, which has got the number since the status was read, is
// not kept: its status would be told of the first one.
func TestPidfdOfAnother(t *testing.T) {
	pid := uint32(os.Getpid())
	for name, next := range map[string]*life{"the same": {start: 1e8, threads: 1}, "another": {start: 2e8, threads: 1}, "gone": nil} {
		m := &machine{now: 1e9, tasks: 1000, lives: make(map[uint32]*life)}
		s := watching(t, m)
		fds, err := newPidfds()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds.epoll)
		s.fds = fds
		if m.lives[pid] = next; next == nil {
			delete(m.lives, pid)
		}
		s.learn(pid, 1e8, &procfs.Status{State: 'S', Threads: 1})
		fd := s.known[pid].fd
		if fd == none && name == "the same" {
			if _, err := unix.PidfdOpen(int(pid), 0); err != nil {
				t.Skip(err)
			}
		}
		if (fd != none) != (name == "the same") {
			t.Errorf("%s: pidfd %d", name, fd)
		}
		fds.close(fd)
	}
}
