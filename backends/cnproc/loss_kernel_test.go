package cnproc

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/retry"
)

// onEveryCPU runs a process on each CPU in turn, and calls f after each end.
func onEveryCPU(t *testing.T, f func()) {
	t.Helper()
	lockThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all)
	for cpu := range 1024 {
		if !all.IsSet(cpu) {
			continue
		}
		one.Zero()
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		if err := command(t, "true").Run(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // the last exit is sent after wait(2) returns
		f()
	}
}

func storm(t *testing.T, n int) {
	t.Helper()
	path := command(t, "true").Path
	for range n {
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(20 * time.Millisecond)
}

// TestLossIsExact overruns a tiny buffer. It compares the events and losses of this source with the
// events of a source that has enough room.
func TestLossIsExact(t *testing.T) {
	// With Threads, every message is one or two events.
	big := kernel(t, Options{Enrich: source.EnrichNone}, source.Options{Threads: true})
	tiny := kernel(t, Options{Enrich: source.EnrichNone, ReceiveBuffer: 16 << 10})
	sinkBig, sinkTiny := &sink{room: 1 << 20}, &sink{room: 1 << 20}
	populate := func() {
		t.Helper()
		if err := errors.Join(tiny.Populate(sinkTiny), big.Populate(sinkBig)); err != nil {
			t.Fatal(err)
		}
	}
	onEveryCPU(t, populate) // so that the first number of each CPU is known
	if st, _ := tiny.Stats(); st.LostTotal() != 0 {
		t.Skipf("the buffer is too small for %d processors", len(tiny.loss.seq.cpus))
	}
	for round := range 3 {
		storm(t, 60)
		if st, _ := tiny.Stats(); st.LostTotal() == 0 || st.Bound {
			t.Errorf("round %d, before reading: got stats %+v", round, st)
		}
		populate()
		// The socket counts a dropped message at once. Its sequence number is missed only
		// when a later message of its CPU is read. Other processes can overrun the socket
		// meanwhile. So the two counts agree if nothing was dropped since messages of all
		// CPUs were read.
		var lost uint64
		for range 10 {
			before := tiny.loss.overruns
			onEveryCPU(t, populate)
			st, err := tiny.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if lost = st.Lost[engine.LossSocketFull] - tiny.loss.void; tiny.loss.overruns == before && lost == tiny.loss.seq.gaps {
				break
			}
		}
		if tiny.loss.seq.gaps != lost || tiny.loss.overruns == 0 {
			t.Errorf("round %d: got %d lost, %d missing numbers, %d overruns", round, lost, tiny.loss.seq.gaps, tiny.loss.overruns)
		}
		if st, _ := big.Stats(); st.LostTotal() != 0 {
			t.Fatalf("the big buffer lost %d", st.LostTotal())
		}
		// The messages that big received, from the first to the last number of tiny.
		// Answers to other listeners also have numbers, and so do core dumps, which are not
		// events before the end.
		got, want, all := tiny.received+lost, between(tiny, sinkBig), between(big, sinkBig)
		if without := big.received - all; got < want || got > want+without {
			t.Errorf("round %d: got %d received or lost messages, want %d events and %d others", round, got, want, without)
		}
	}
	if st, _ := tiny.Stats(); st.Produced != sinkTiny.delivered()+st.LostTotal() {
		t.Errorf("got produced %d, delivered %d, lost %d", st.Produced, sinkTiny.delivered(), st.LostTotal())
	}
}

// between counts the messages that o received, from the first to the last of each CPU. o was opened
// later.
func between(o *Source, got *sink) (n uint64) {
	type number struct {
		cpu uint32
		seq uint64
	}
	seen := map[number]bool{}
	for _, ev := range got.events {
		if seen[number{ev.CPU, ev.Seq}] {
			continue // the exit of a last thread ends its group as well
		}
		seen[number{ev.CPU, ev.Seq}] = true
		c := o.loss.seq.cpus[ev.CPU]
		if seq := uint32(ev.Seq); int32(seq-c.first) >= 0 && int32(seq-uint32(c.next)) < 0 {
			n++
		}
	}
	return n
}

// TestOverrunIsSurvived overruns the buffer while processes with threads start and end. It wants
// events, and no stale threads.
func TestOverrunIsSurvived(t *testing.T) {
	s := kernel(t, Options{ReceiveBuffer: 8 << 10})
	s.track.dumps.spread = false
	to := &sink{room: 1 << 20}
	for range 3 {
		for range 5 {
			if err := conform.Child("threads").Run(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
	}
	if st, _ := s.Stats(); st.LostTotal() == 0 {
		t.Errorf("nothing was lost: %+v", st)
	}
	for try := 0; ; try++ { // others on this machine can overrun it again
		cmd := command(t, "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		// If messages were lost in between, the process may have had unknown threads.
		if exits := to.events.Of(cmd.Process.Pid, engine.KindExit); len(exits) > 0 && exits[0].Task.Known.Has(engine.FieldExit) {
			wantStatus(t, to, cmd)
			break
		}
		if try == 50 {
			t.Fatal("no more events")
		}
	}
	// The records of ended processes are dropped. Other processes end all the time, but a
	// leaked record stays.
	kept := maps.Clone(s.track.byPID.In)
	for range retry.For(10 * time.Second) {
		s.Populate(to)
		s.track.dropRetired(now() + 3*maxStraggle)
		maps.DeleteFunc(kept, func(pid uint32, _ process) bool {
			_, still := s.track.byPID.In[pid]
			_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			return !still || err == nil
		})
		if len(kept) == 0 {
			return
		}
	}
	t.Errorf("got records of ended processes %v", slices.Collect(maps.Keys(kept)))
}

// If a pid is reused during a loss, the end of the new process is delivered with its certain
// fields, although nobody waits for it.
func TestExitOfPIDGivenAgainDuringLoss(t *testing.T) {
	s := kernel(t, Options{})
	to := &sink{room: 1 << 20}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.Close(); w.Close() }()
	wait := func(p *barefork.Process) {
		signal.Ignore(unix.SIGCHLD) // so that it is gone before the message is made
		unix.Write(int(w.Fd()), []byte{0})
		unix.Wait4(p.PID, nil, 0, nil)
		signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD) // undoes that
		p.Free()
	}
	first, err := barefork.Start(new(barefork.Script).WaitFor(int(r.Fd())).Exit(1), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watch(t, s, to, func() bool { return len(to.events.Of(first.PID, engine.KindFork)) > 0 })
	wait(first)
	name := append([]byte("renamed"), 0)
	script := new(barefork.Script).WaitFor(int(r.Fd())).Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, name).
		WaitFor(int(r.Fd())).Exit(42)
	next, err := barefork.Start(script, barefork.Options{PID: first.PID})
	for errors.Is(err, unix.EEXIST) { // it is about to be given back
		next, err = barefork.Start(script, barefork.Options{PID: first.PID})
	}
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := uint64(0) // as if the socket had had no room
	for ; ; lost++ {
		if _, _, err := unix.Recvfrom(s.fd, make([]byte, 256), unix.MSG_DONTWAIT); err != nil {
			break
		}
	}
	s.overran()
	s.track.lose(engine.Gap{Cause: engine.LossSocketFull, CPU: engine.AllCPUs, From: s.loss.counted, To: now(), Count: lost})
	s.loss.overrun = 0
	unix.Write(int(w.Fd()), []byte{0})
	watch(t, s, to, func() bool { return len(to.events.Of(next.PID, engine.KindSetProcTitle)) > 0 })
	wait(next)
	watch(t, s, to, func() bool { return len(to.events.Of(next.PID, engine.KindExit)) > 0 })
	ev := to.events.Of(next.PID, engine.KindExit)[0]
	if ev.Task.Known.Has(engine.FieldExit) && ev.Task.Exit.WaitStatus != 42<<8 {
		t.Errorf("%+v, known %v", ev.Task.Exit, ev.Task.Known)
	}
}

// A message from a socket other than the kernel's is ignored.
func TestSpoofIsIgnored(t *testing.T) {
	s := kernel(t, Options{Enrich: source.EnrichNone})
	port, err := unix.Getsockname(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const pid = 4_000_000 // above pid_max of most, and unused
	fake := record(Exec, 0, 1, now(), pid, pid)
	if err := unix.Sendto(fd, fake, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port.(*unix.SockaddrNetlink).Pid}); err != nil {
		t.Skip(err)
	}
	to := &sink{room: 1 << 20}
	watch(t, s, to, func() bool { return s.foreign > 0 })
	if n := len(to.events.Of(pid, engine.KindExec)); n != 0 {
		t.Errorf("%d false events", n)
	}
	if st, _ := s.Stats(); st.LostTotal() != 0 || s.foreign != 1 {
		t.Errorf("got stats %+v, %d messages of other senders", st, s.foreign)
	}
}

func TestKinds(t *testing.T) {
	conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return kernel(t, Options{}, shared) },
		func(testing.TB, engine.Source, source.Options) {})
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name   string
		kinds  engine.Events
		exits  source.Exits
		script string
		want   engine.Events
	}{
		{"exec", engine.EventExec, 0, "exit 3", engine.EventExec},
		{"exec and exit", engine.EventExec | engine.EventExit, 0, "exit 0", engine.EventExec | engine.EventExit},
		{"failing exits, one fails", engine.EventExit, source.ExitsNonzero, "exit 3", engine.EventExit},
		{"failing exits, none fails", engine.EventExit, source.ExitsNonzero, "exit 0", 0},
		{"execs and failing exits", engine.EventExec | engine.EventExit, source.ExitsNonzero, "exit 0", engine.EventExec},
		{"forks", engine.EventFork, 0, "exit 0", engine.EventFork},
	} {
		for _, enrich := range []source.Enrich{source.EnrichFull, source.EnrichNone} {
			t.Run(c.name, func(t *testing.T) {
				s := kernel(t, Options{Enrich: enrich}, source.Options{Kinds: c.kinds, Exits: c.exits})
				to := &sink{room: 1 << 20}
				cmd := command(t, "sh", "-c", c.script)
				if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
					t.Fatal(err)
				}
				var got engine.Events
				for range retry.For(10 * time.Second) {
					if err := s.Populate(to); err != nil {
						t.Fatal(err)
					}
					if got = 0; s.received > 0 && s.track.byPID.In[uint32(cmd.Process.Pid)].state != seen {
						break // its end was seen
					}
				}
				for _, ev := range to.events {
					if int(ev.PID) == cmd.Process.Pid {
						got |= ev.Kind.Events()
					}
				}
				if got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		}
	}
}

// Messages for which the engine has no room stay in the socket.
func TestFullBuffer(t *testing.T) {
	for _, enrich := range []source.Enrich{source.EnrichFull, source.EnrichNone} {
		s := kernel(t, Options{Enrich: enrich})
		to := &sink{room: 7}
		storm(t, 100)
		pids := map[uint32]int{}
		for deadline := time.Now().Add(5 * time.Second); len(pids) < 100 && time.Now().Before(deadline); {
			if err := s.Populate(to); err != nil {
				t.Fatal(err)
			}
			if len(to.events) > to.room {
				t.Fatalf("%d events for %d places", len(to.events), to.room)
			}
			for _, ev := range to.events {
				if ev.Kind == engine.KindExit {
					pids[ev.PID]++
				}
			}
			to.events = to.events[:0]
		}
		if st, _ := s.Stats(); len(pids) < 100 || st.LostTotal() != 0 {
			t.Errorf("%d exits of 100, %+v", len(pids), st)
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(fds)
}

func TestCloseLeavesNothing(t *testing.T) {
	kernel(t, Options{}).Close() // the first Open opens descriptors that stay
	before := openFDs(t)
	for range 10 {
		s := kernel(t, Options{})
		storm(t, 1)
		s.Populate(&sink{room: 100})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if err := s.Populate(&sink{room: 100}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Populate after Close: got error %v", err)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("got %[2]d descriptors, want %[1]d", before, after)
	}
}

// Another network namespace has no proc connector, and the error says so.
func TestOpenInAnotherNetwork(t *testing.T) {
	lockThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	s, err := Open(source.Options{}, Options{})
	if err == nil {
		s.Close()
	}
	if err == nil || !errors.Is(err, unix.ECONNREFUSED) || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("%v", err)
	}
}

// Populate does not allocate while processes start and end. Other goroutines may allocate
// meanwhile, so one of several calls decides.
func TestPopulateAllocatesNothing(t *testing.T) {
	for _, enrich := range []source.Enrich{source.EnrichFull, source.EnrichNone} {
		s := kernel(t, Options{Enrich: enrich})
		pool := new(conform.Recycler)
		storm(t, 200)
		s.Populate(pool)
		pool.N = 0
		const tries, each = 100, 20
		made := 0
		if least := conform.LeastAllocs(tries, func() { storm(t, each); made += each }, func() { s.Populate(pool) }); least > 0 {
			t.Errorf("enrich %d: got at least %d allocations in each call, want 0", enrich, least)
		}
		if pool.N < made {
			t.Errorf("enrich %d: got %d events of %d processes", enrich, pool.N, made)
		}
	}
}

// After chroot and setuid a source still reads events and the public files of /proc.
func TestDropPrivileges(t *testing.T) {
	kernel(t, Options{}).Close()
	cmd := conform.Child("drop-privileges")
	cmd.Dir = t.TempDir()
	_, out := conform.Start(t, cmd)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("%q", lines.Text())
	}
	target := command(t, "sh", "-c", "read x", "some", "words")
	in, _ := target.StdinPipe()
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); target.Wait() }()
	if want := fmt.Sprintf("%d start=true cmdline=true filename=false", target.Process.Pid); !lines.Scan() || lines.Text() != want {
		t.Errorf("got %q, want %q", lines.Text(), want)
	}
}

// The acknowledgement follows the messages that the socket already held. If it is dropped, it is
// requested again.
func TestAcknowledgementBehindMessages(t *testing.T) {
	for _, room := range []int{defaultReceiveBuffer, 16 << 10} {
		s := kernel(t, Options{Enrich: source.EnrichNone})
		if err := nlsocket.SetReceiveBuffer(s.fd, room); err != nil {
			t.Fatal(err)
		}
		storm(t, 2*batchSize)
		const token = 77
		if err := send(s.fd, request(token, opListen)); err != nil {
			t.Fatal(err)
		}
		want := error(nil)
		if room < defaultReceiveBuffer {
			want = errLostAck
		}
		if err := await(s.fd, s.batch, token); !errors.Is(err, want) {
			t.Errorf("room of %d bytes: %v", room, err)
		}
		if err := send(s.fd, request(0, opIgnore)); err != nil {
			t.Fatal(err)
		}
	}
}
