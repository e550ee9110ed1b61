package procpoll

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func TestMain(m *testing.M) { conform.Main(m, nil) }

// open opens a source that the test's end closes, or skips the test.
func open(t testing.TB, o Options, shared source.Options) *Source {
	t.Helper()
	s, err := Open(shared, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConform(t *testing.T) {
	conform.TestExcept(t, func(t testing.TB, shared source.Options) engine.Source {
		return open(t, Options{Interval: 10 * time.Millisecond}, shared)
	}, map[string]string{"pid-reuse": oneTick, "pid-reuse-unread": oneTick})
}

const oneTick = "to /proc, processes of one number that were started within 10 ms are one"

// run starts a process that waits for a byte, and returns it with what makes it go on.
func run(t *testing.T, script func(fd int) *barefork.Script) (p *barefork.Process, goOn func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	p, err = barefork.Start(script(int(r.Fd())), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, func() {
		if _, err := w.Write(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// read makes a source read /proc now, and returns what it tells.
func read(t *testing.T, s *Source) conform.Events {
	t.Helper()
	s.Finish()
	return conform.Drain(t, s)
}

// The status of a process that was waited for is known by a pidfd, and is what its parent was told,
// also where the leader has ended first with another one.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(fd int) *barefork.Script
	}{
		{"exit_group", func(fd int) *barefork.Script { return new(barefork.Script).WaitFor(fd).Exit(3) }},
		{"a thread ends the process", func(fd int) *barefork.Script {
			return new(barefork.Script).Thread(new(barefork.Script).WaitFor(fd).Exit(5)).Stop()
		}},
		{"the leader ends first", func(fd int) *barefork.Script {
			return new(barefork.Script).Thread(new(barefork.Script).WaitFor(fd).ExitThread(7)).ExitThread(3)
		}},
		{"the leader ends first, and a thread ends the process", func(fd int) *barefork.Script {
			return new(barefork.Script).Thread(new(barefork.Script).WaitFor(fd).Exit(7)).ExitThread(3)
		}},
	} {
		for _, waited := range []bool{false, true} {
			s := open(t, Options{Interval: time.Hour}, source.Options{})
			p, goOn := run(t, c.script)
			read(t, s)
			goOn()
			if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
			var ev *engine.RawEvent
			if !waited {
				ev = read(t, s).One(t, p.PID, engine.KindExit)
			}
			status, err := children.Wait(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			if waited {
				ev = read(t, s).One(t, p.PID, engine.KindExit)
			}
			known := ev.Task.Known.Has(engine.FieldExit)
			t.Logf("%s, waited for %v: known %v, %#x", c.name, waited, known, ev.Task.Exit.WaitStatus)
			if known && ev.Task.Exit.WaitStatus != int32(status) {
				t.Errorf("%s, waited for %v: status %#x, want %#x", c.name, waited, ev.Task.Exit.WaitStatus, status)
			}
			if since := map[bool]string{false: "6.1", true: "6.15"}[waited]; !known && kernelversion.AtLeast(since) {
				t.Errorf("%s, waited for %v: the status is unknown, from Linux %s on", c.name, waited, since)
			}
		}
	}
}

// What comes and goes between two readings is counted, and told in a gap. Threads of others are
// counted too.
func TestMissed(t *testing.T) {
	s := open(t, Options{Interval: time.Hour}, source.Options{})
	// Others make tasks too: here all are counted from before the source counts until after.
	before, err := s.count()
	if err != nil {
		t.Fatal(err)
	}
	read(t, s)
	known, from := s.balance, s.now()
	const processes = 50
	for range processes {
		p, err := barefork.Start(new(barefork.Script).Exit(0), barefork.Options{Share: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := children.Wait(p.PID); err != nil {
			t.Fatal(err)
		}
		p.Free()
	}
	to := s.now()
	var evs conform.Events
	s.Finish()
	if err := s.Populate(&evs); err != nil {
		t.Fatal(err)
	}
	after, err := s.count()
	if err != nil {
		t.Fatal(err)
	}
	missed := s.balance.missed - known.missed
	if made := after - before; missed < processes || missed > made {
		t.Errorf("%d missed of %d, in all %d tasks were made", missed, processes, made)
	}
	gaps := 0
	for _, ev := range evs {
		if ev.Kind == engine.KindGap {
			if gaps++; ev.Gap.Cause != engine.LossMissed || ev.Gap.Count != missed || ev.Gap.From > from || ev.Gap.To < to {
				t.Errorf("gap %+v", ev.Gap)
			}
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps", gaps)
	}
}

// A life that readings fall into is told, with its images.
func TestLife(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := tinyelf.WriteWaiter(program, 9); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Interval: time.Hour}, source.Options{})
	for _, waits := range []bool{false, true} { // before the exec, or not
		cmd := exec.Command(program, "argument")
		in, _ := conform.Start(t, cmd)
		evs := read(t, s)
		pid := cmd.Process.Pid
		fork, executed := evs.One(t, pid, engine.KindFork), evs.One(t, pid, engine.KindExec)
		if fork.Time > executed.Time || fork.Task.Known&procfs.Image != 0 || string(executed.Bytes(engine.FieldFilename)) != program ||
			string(executed.Bytes(engine.FieldCmdline)) != program+"\x00argument\x00" || executed.Task.PPID != uint32(os.Getpid()) {
			t.Errorf("waits %v: known %v of the fork; %q", waits, fork.Task.Known, executed.Bytes(engine.FieldCmdline))
		}
		if evs := read(t, s).Kinds(pid); evs != "" {
			t.Errorf("of a process that waits: %s", evs)
		}
		in.Close()
		cmd.Wait()
		if exit := read(t, s).One(t, pid, engine.KindExit); exit.Task.Start != fork.Task.Start || exit.Time <= executed.Time {
			t.Errorf("%+v", exit)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	open(t, Options{}, source.Options{}).Close()
	before := conform.OpenFDs(t)
	for range 3 {
		s := open(t, Options{}, source.Options{})
		read(t, s)
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if err := s.Populate(new(conform.Events)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("populate after close: %v", err)
		}
	}
	if after := conform.OpenFDs(t); after != before {
		t.Errorf("%d descriptors were open, now %d", before, after)
	}
}

// FD wakes at the interval, and Populate reads no earlier.
func TestInterval(t *testing.T) {
	s := open(t, Options{Interval: 50 * time.Millisecond}, source.Options{})
	for range 3 {
		if n, err := conform.Poll(s, 10*time.Second); n != 1 {
			t.Fatalf("%d readable, %v", n, err)
		}
		before := s.reading
		conform.Drain(t, s)
		once := s.reading
		if conform.Drain(t, s); once != before+1 || s.reading != once && s.now() < s.due-uint64(s.opts.Interval) {
			t.Errorf("%d readings, then %d", once-before, s.reading-once)
		}
	}
}

// A reading allocates nothing once it has room for the processes that there are.
func TestReadAllocatesNothing(t *testing.T) {
	s := open(t, Options{Interval: time.Hour}, source.Options{})
	to := engine.NewBuffer(1 << 16)
	least := conform.LeastAllocs(200, func() { s.finishing = true }, func() {
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
	})
	if least != 0 {
		t.Errorf("%d allocations or more in each reading", least)
	}
}

// No more descriptors are open than half of the limit.
func TestDescriptors(t *testing.T) {
	s := open(t, Options{}, source.Options{})
	room := s.fds.room
	s.fds.room = 0
	p, goOn := run(t, func(fd int) *barefork.Script { return new(barefork.Script).WaitFor(fd).Exit(3) })
	read(t, s)
	if s.known.In[uint32(p.PID)].fd != none {
		t.Error("a descriptor beyond the limit")
	}
	goOn()
	if _, err := children.Wait(p.PID); err != nil {
		t.Fatal(err)
	}
	if ev := read(t, s).One(t, p.PID, engine.KindExit); ev.Task.Known != engine.FieldStart.Set() {
		t.Errorf("known %v", ev.Task.Known)
	}
	s.fds.room += room
}

// BenchmarkRead is a reading in which nothing happens, and its cost for each process.
func BenchmarkRead(b *testing.B) {
	s := open(b, Options{Interval: time.Hour}, source.Options{})
	to := engine.NewBuffer(1 << 16)
	for b.Loop() {
		s.finishing = true
		if err := s.Populate(to); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.known.In)), "ns/process")
}

// Of a life that readings fall into the chosen events are told and no others, whatever status it
// ends with.
func TestKinds(t *testing.T) {
	programs := map[uint8]string{0: filepath.Join(t.TempDir(), "succeeds"), 9: filepath.Join(t.TempDir(), "fails")}
	for status, path := range programs {
		if err := tinyelf.WriteWaiter(path, status); err != nil {
			t.Fatal(err)
		}
	}
	const life = engine.EventFork | engine.EventExec | engine.EventExit
	for kinds := engine.Events(0); kinds <= life; kinds++ {
		for _, exits := range []source.Exits{source.ExitsAll, source.ExitsNonzero} {
			if kinds != 0 && !kinds.Has(engine.EventExit) && exits != source.ExitsAll {
				continue
			}
			s := open(t, Options{Interval: time.Hour}, source.Options{Kinds: kinds, Exits: exits})
			for status, path := range programs {
				cmd := exec.Command(path)
				in, _ := conform.Start(t, cmd)
				pid := cmd.Process.Pid
				evs := read(t, s)
				in.Close()
				// As a zombie it shows its status.
				if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
					t.Fatal(err)
				}
				evs = append(evs, read(t, s)...)
				cmd.Wait()
				evs = append(evs, read(t, s)...)
				want := kinds
				if kinds == 0 {
					want = life
				}
				if exits == source.ExitsNonzero && status == 0 && s.wholeStatus {
					want &^= engine.EventExit
				}
				var got engine.Events
				for _, ev := range evs {
					if int(ev.PID) == pid {
						got |= ev.Kind.Events()
						evs.One(t, pid, ev.Kind)
					}
				}
				if got != want {
					t.Errorf("%s, exits %d, status %d: got %s, not %s", kinds, exits, status, got, want)
				}
			}
			s.Close()
		}
	}
}

// replacing is a view in which something happens before a process is read.
type replacing struct {
	view
	replace func()
}

func (r *replacing) Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error) {
	r.replace()
	return r.view.Read(pid, want, ev)
}

// A process that is replaced by another one with its number, and to /proc with its start time,
// before it is read has no values of that one.
func TestReplacedInATick(t *testing.T) {
	s := open(t, Options{}, source.Options{})
	idle := func() *barefork.Script { return new(barefork.Script).Stop() }
	for try := range 500 {
		a, err := barefork.Start(new(barefork.Script).Call("setpgid", unix.SYS_SETPGID, 0, 0).Stop(), barefork.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pid := uint32(a.PID)
		s.fresh = s.fresh[:0]
		s.look(pid)
		if len(s.fresh) != 1 {
			t.Fatalf("%d processes are new", len(s.fresh))
		}
		b := s.fresh[0]
		var next *barefork.Process
		real := s.proc
		s.proc = &replacing{real, func() {
			a.Kill()
			if next, err = barefork.Start(idle(), barefork.Options{PID: a.PID}); err != nil {
				t.Skipf("start a process with a number: %v", err)
			}
		}}
		var events conform.Events
		s.to = &events
		s.born(&b)
		s.proc = real
		_, start, err := real.Status(pid)
		next.Kill()
		next.Free()
		a.Free()
		if p, ok := s.known.In[pid]; ok {
			s.fds.close(p.fd)
			delete(s.known.In, pid)
		}
		if err != nil || start != b.start {
			continue // not in a tick
		}
		for _, ev := range events {
			if known := ev.Task.Known &^ engine.FieldStart.Set(); known != 0 {
				t.Errorf("%v has %v, of the next process with its number; try %d", ev.Kind, known, try)
			}
		}
		return
	}
	t.Error("no process was replaced within a tick in 500 tries")
}
