package taskstats

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

func TestMain(m *testing.M) {
	conform.Main(m, map[string]func(){
		"threads": threads,
		"dropped": func() {
			s, err := Open(source.Options{}, Options{})
			conform.Try("open", err)
			conform.Dropped(s)
		},
	})
}

// threads ends five threads, then, when it has been asleep for a while, the process.
func threads() {
	for range 5 {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			close(done)
		}()
		<-done
	}
	time.Sleep(100 * time.Millisecond)
	os.Exit(3)
}

// kernel opens a source that the test's end closes, or skips the test.
func kernel(t testing.TB, o Options, shared ...source.Options) *Source {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: taskstats needs CAP_NET_ADMIN")
	}
	s, err := Open(append(shared, source.Options{})[0], o)
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
	conform.Test(t, func(t testing.TB, shared source.Options) engine.Source { return kernel(t, Options{}, shared) })
}

// run runs a script to its end and returns the events of its process, which come until it is
// reported or a while has passed.
func run(t *testing.T, s *Source, script *barefork.Script, signal unix.Signal) (p *barefork.Process, evs conform.Events) {
	t.Helper()
	conform.Drain(t, s)
	p, err := barefork.Start(script, barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if signal != 0 {
		if err := unix.Kill(p.PID, signal); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := children.Wait(p.PID); err != nil {
		t.Fatal(err)
	}
	p.Free()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if evs = append(evs, conform.Drain(t, s)...); len(evs.Of(p.PID, engine.KindExit)) > 0 {
			break
		}
	}
	return p, append(evs, conform.Drain(t, s)...)
}

func TestStatus(t *testing.T) {
	s := kernel(t, Options{})
	for _, c := range []struct {
		script *barefork.Script
		signal unix.Signal
		want   int32
	}{{new(barefork.Script).Exit(3), 0, 0x300}, {new(barefork.Script).Stop(), unix.SIGKILL, 9}} {
		p, evs := run(t, s, c.script, c.signal)
		ev := evs.One(t, p.PID, engine.KindExit)
		if !ev.Task.Known.Has(engine.FieldExit) || ev.Task.Exit.WaitStatus != c.want || ev.Task.PPID != uint32(os.Getpid()) ||
			!ev.Task.Known.Has(engine.FieldComm) || ev.Task.Exit.Time != ev.Time {
			t.Errorf("%#x: %+v", c.want, ev.Task)
		}
	}
}

// The status of a process whose threads have ended before is known, as it was seen to run then.
func TestStatusAfterThreads(t *testing.T) {
	for _, asked := range []bool{false, true} {
		s := kernel(t, Options{}, source.Options{Threads: asked})
		if !s.kernel.Marked {
			t.Skip("before Linux 5.19 a record does not tell the process of its thread")
		}
		// The process is born after all that may be missing.
		time.Sleep(1100 * time.Millisecond)
		cmd := conform.Child("threads")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var evs conform.Events
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && cmd.ProcessState == nil; {
			if s.Arm(true) {
				conform.Poll(s, 20*time.Millisecond)
			}
			evs = append(evs, conform.Drain(t, s)...)
			// Records of threads that end together can come after it.
			if slices.ContainsFunc(evs.Of(cmd.Process.Pid, engine.KindExit), func(ev *engine.RawEvent) bool { return !ev.Thread }) {
				cmd.Wait()
			}
		}
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
			t.Fatalf("the end of the process is not told: %d events", len(evs))
		}
		evs = append(evs, conform.Drain(t, s)...)
		ended, threads := 0, 0
		for _, ev := range evs.Of(cmd.Process.Pid, engine.KindExit) {
			if ev.Thread {
				threads++
				continue
			}
			ended++
			want := int32(cmd.ProcessState.Sys().(syscall.WaitStatus))
			if !ev.Task.Known.Has(engine.FieldExit) || ev.Task.Exit.WaitStatus != want {
				t.Errorf("known %v, status %#x, want %#x", ev.Task.Known, ev.Task.Exit.WaitStatus, want)
			}
		}
		if ended != 1 || (threads >= 5) != asked {
			t.Errorf("threads asked for %v: %d ends of the process, %d of threads", asked, ended, threads)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, shared := range []source.Options{{Kinds: engine.EventExit}, {Kinds: engine.EventExit, Exits: source.ExitsNonzero}} {
		s := kernel(t, Options{}, shared)
		for code, want := range map[int]bool{7: true, 0: shared.Exits == source.ExitsAll && s.kernel.Marked} {
			p, evs := run(t, s, new(barefork.Script).Exit(code), 0)
			if got := len(evs.Of(p.PID, engine.KindExit)); got > 1 || want && got == 0 || got == 1 && code == 0 && shared.Exits == source.ExitsNonzero {
				t.Errorf("%v, code %d: %d ends", shared.Exits, code, got)
			}
		}
	}
	_, err := Open(source.Options{Kinds: engine.EventFork}, Options{})
	if os.Getuid() == 0 && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("births alone: %v", err)
	}
}

// storm starts and ends n processes, one after the other.
func storm(t *testing.T, n int) {
	t.Helper()
	for range n {
		p, err := barefork.Start(new(barefork.Script).Exit(0), barefork.Options{Share: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := children.Wait(p.PID); err != nil {
			t.Fatal(err)
		}
		p.Free()
	}
}

// count counts events, those of gaps apart.
type count struct {
	conform.Events
	gaps []engine.Gap
}

func (c *count) Insert(ev *engine.RawEvent) {
	if ev.Kind == engine.KindGap {
		c.gaps = append(c.gaps, *ev.Gap)
		return
	}
	c.Events.Insert(ev)
}

// What a socket that is full drops is counted, by it and by the numbers of the records, and told in
// gaps; then all is well again.
func TestLossIsExact(t *testing.T) {
	tiny, whole := kernel(t, Options{ReceiveBuffer: 1}), kernel(t, Options{})
	const processes = 300
	from := whole.arrived
	storm(t, processes)
	some, all := new(count), new(count)
	for range 6 {
		if err := errors.Join(tiny.Populate(some), whole.Populate(all)); err != nil {
			t.Fatal(err)
		}
		storm(t, 4) // the numbers of these show what was lost before them
	}
	if err := errors.Join(tiny.Populate(some), whole.Populate(all)); err != nil {
		t.Fatal(err)
	}
	st, _ := tiny.Stats()
	lost, told := st.Lost[engine.LossSocketFull], uint64(0)
	for _, g := range some.gaps {
		if told += g.Count; g.From >= g.To || g.Cause != engine.LossSocketFull || g.To < from {
			t.Errorf("gap %+v", g)
		}
	}
	var missing, foreign uint64
	for i := range tiny.listeners {
		missing, foreign = missing+tiny.listeners[i].seq.missing, foreign+tiny.listeners[i].seq.foreign
	}
	t.Logf("%d lost, %d told, %d numbers missing, %d foreign; %d delivered, %d by who loses nothing", lost, told, missing, foreign, len(some.Events), len(all.Events))
	if lost == 0 || told != lost {
		t.Errorf("%d lost, %d told in gaps", lost, told)
	}
	// A CPU whose last records were dropped has no number that shows it.
	if missing-foreign > lost || missing == foreign {
		t.Errorf("%d lost, %d numbers are missing", lost, missing-foreign)
	}
	if whole.kernel.Marked && st.Produced < uint64(len(all.Events)) {
		t.Errorf("%d produced, %d events are there", st.Produced, len(all.Events))
	}
	if st, _ := whole.Stats(); st.LostTotal() != 0 || len(all.gaps) != 0 {
		t.Errorf("who has room lost %+v", st)
	}
	for i := range tiny.listeners {
		if err := nlsocket.SetReceiveBuffer(tiny.listeners[i].fd, defaultReceiveBuffer); err != nil {
			t.Fatal(err)
		}
	}
	conform.Drain(t, tiny)
	conform.Judge(t, tiny, "fork-exec-exit")
}

// A full sink leaves records where they are, and nothing is lost or doubled.
func TestFullSink(t *testing.T) {
	s := kernel(t, Options{})
	n := len(conform.Drain(t, s))
	storm(t, 100)
	for range 200 {
		b := engine.NewBuffer(3)
		if err := s.Populate(b); err != nil {
			t.Fatal(err)
		}
		n += b.Len()
	}
	if n < 100 && s.kernel.Marked {
		t.Errorf("%d ends", n)
	}
	if st, _ := s.Stats(); st.LostTotal() != 0 || st.Produced != uint64(n) {
		t.Errorf("%d delivered: %+v", n, st)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	kernel(t, Options{}).Close()
	before := conform.OpenFDs(t)
	for range 3 {
		s := kernel(t, Options{})
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if err := s.Populate(new(count)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("populate after close: %v", err)
		}
		if _, err := s.Stats(); err != nil {
			t.Error(err)
		}
	}
	if after := conform.OpenFDs(t); after != before {
		t.Errorf("%d descriptors were open, now %d", before, after)
	}
}

func TestPopulateAllocatesNothing(t *testing.T) {
	s := kernel(t, Options{}, source.Options{Kinds: engine.EventExit})
	to, made := new(conform.Recycler), 0
	least := conform.LeastAllocs(100, func() { storm(t, 20); made += 20 }, func() {
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
	})
	if least != 0 || to.N < made && s.kernel.Marked {
		t.Errorf("%d allocations or more in each call, %d events of %d processes", least, to.N, made)
	}
}

func TestDropPrivileges(t *testing.T) {
	kernel(t, Options{})
	c := conform.Child("dropped")
	in, out := conform.Start(t, c)
	out.ReadString('\n')
	conform.Child("exit").Run()
	time.Sleep(50 * time.Millisecond)
	fmt.Fprintln(in)
	line, _ := out.ReadString('\n')
	var events, produced int
	if n, err := fmt.Sscan(line, &events, &produced); n != 2 || events < 1 || produced < events {
		t.Errorf("events delivered and produced: %q (%v)", line, err)
	}
}

// Who may not listen is told why. The thread that tries ends with the test.
func TestOpenRefuses(t *testing.T) {
	kernel(t, Options{})
	for _, c := range []struct {
		name string
		flag int // of unshare(2), 0 to drop CAP_NET_ADMIN
		want string
	}{
		{"without CAP_NET_ADMIN", 0, "CAP_NET_ADMIN"},
		{"in another user namespace", unix.CLONE_NEWUSER, "initial user namespace"},
		{"in another network namespace", unix.CLONE_NEWNET, "--net=host"},
	} {
		refused := make(chan error)
		go func() {
			runtime.LockOSThread()
			if c.flag == 0 {
				header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
				if err := unix.Capget(&header, &caps[0]); err == nil {
					caps[0].Effective &^= 1 << unix.CAP_NET_ADMIN
					unix.Capset(&header, &caps[0])
				}
			} else if err := unix.Unshare(c.flag); err != nil {
				refused <- nil
				return
			}
			s, err := Open(source.Options{}, Options{})
			if err == nil {
				s.Close()
				err = errors.New("it opened")
			}
			refused <- err
		}()
		if err := <-refused; err == nil {
			t.Logf("%s: not tried, unshare fails here", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, size := range []int{-1, 2 << 30} {
		wrong := new(engine.OptionError)
		if err := Validate(Options{ReceiveBuffer: size}); !errors.As(err, &wrong) || wrong.Option != "ReceiveBuffer" {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// What user space sends to a socket is ignored.
func TestSpoofIsIgnored(t *testing.T) {
	s := kernel(t, Options{})
	conform.Drain(t, s)
	addr, err := unix.Getsockname(s.listeners[0].fd)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	fake := s.kernel.Encode(0, 77, &unix.Taskstats{Ac_pid: 1, Ac_tgid: 1, Ac_flag: 0x20}, nil)
	if err := unix.Sendto(fd, fake, 0, addr); err != nil {
		t.Skipf("this kernel lets nobody send: %v", err)
	}
	if evs := conform.Drain(t, s); len(evs.Of(1, engine.KindExit)) != 0 {
		t.Error("the end of init, which another process told")
	}
}
