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

// onEveryCPU runs a process on each CPU in turn, and calls f after each has ended.
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

// TestLossIsExact overruns the tiny buffer of one source. It compares this source's events and
// losses with the events of a source with a big buffer.
func TestLossIsExact(t *testing.T) {
	// With Threads, every message is one or two events.
	big := openOnKernel(t, Options{Enrich: source.EnrichNone}, source.Options{Threads: true})
	tiny := openOnKernel(t, Options{Enrich: source.EnrichNone, ReceiveBuffer: 16 << 10})
	sinkBig, sinkTiny := &sink{room: 1 << 20}, &sink{room: 1 << 20}
	populate := func() {
		t.Helper()
		if err := errors.Join(tiny.Populate(sinkTiny), big.Populate(sinkBig)); err != nil {
			t.Fatal(err)
		}
	}
	onEveryCPU(t, populate) // so that the first sequence number of each CPU is known
	if st, _ := tiny.Stats(); st.LostTotal() != 0 {
		t.Skipf("the buffer is too small for %d processors", len(tiny.loss.seq.cpus))
	}
	for round := range 3 {
		storm(t, 60)
		if st, _ := tiny.Stats(); st.LostTotal() == 0 || st.Bound {
			t.Errorf("round %d, before reading: got stats %+v", round, st)
		}
		populate()
		// The socket counts a dropped message at once. A missing sequence number shows only
		// when a later message of the CPU is read. Other processes can overrun the socket
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
			t.Fatalf("the source with the big buffer lost %d events", st.LostTotal())
		}
		// want counts the messages that big received between the first and the last number
		// of tiny. The rest have numbers too: answers to other listeners, and core dumps,
		// which are not events before the EXIT.
		got, want, all := tiny.received+lost, between(tiny, sinkBig), between(big, sinkBig)
		if without := big.received - all; got < want || got > want+without {
			t.Errorf("round %d: got %d received or lost messages, want %d events and %d others", round, got, want, without)
		}
	}
	if st, _ := tiny.Stats(); st.Produced != sinkTiny.delivered()+st.LostTotal() {
		t.Errorf("got produced %d, delivered %d, lost %d", st.Produced, sinkTiny.delivered(), st.LostTotal())
	}
}

// between counts the messages in got with numbers from the first to the last that o received from
// each CPU.
func between(o *Source, got *sink) (n uint64) {
	type number struct {
		cpu uint32
		seq uint64
	}
	seen := map[number]bool{}
	for _, ev := range got.events {
		if seen[number{ev.CPU, ev.Seq}] {
			continue // the exit message of a last thread is two events
		}
		seen[number{ev.CPU, ev.Seq}] = true
		c := o.loss.seq.cpus[ev.CPU]
		if seq := uint32(ev.Seq); int32(seq-c.first) >= 0 && int32(seq-uint32(c.next)) < 0 {
			n++
		}
	}
	return n
}

// TestEventsAfterOverrun overruns the buffer while processes with threads start and end. The source
// must report later events, and keep no ended threads.
func TestEventsAfterOverrun(t *testing.T) {
	s := openOnKernel(t, Options{ReceiveBuffer: 8 << 10})
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
	for try := 0; ; try++ { // other programs can overrun the buffer again
		cmd := command(t, "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		// After another overrun, the process may have had unknown threads.
		if exits := to.events.Of(cmd.Process.Pid, engine.KindExit); len(exits) > 0 && exits[0].Task.Known.Has(engine.FieldExit) {
			wantStatus(t, to, cmd)
			break
		}
		if try == 50 {
			t.Fatal("got no EXIT with a status after the overrun")
		}
	}
	// The records of ended processes are dropped. Records of new processes come and go, but a
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

// If a pid is reused during a loss, the EXIT of the new process has all certain fields, even if no
// parent waits for it.
func TestExitOfPIDReusedDuringLoss(t *testing.T) {
	s := openOnKernel(t, Options{})
	to := &sink{room: 1 << 20}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.Close(); w.Close() }()
	wait := func(p *barefork.Process) {
		signal.Ignore(unix.SIGCHLD) // the process is reaped before its message is made
		unix.Write(int(w.Fd()), []byte{0})
		unix.Wait4(p.PID, nil, 0, nil)
		signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD) // undoes Ignore
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
	for errors.Is(err, unix.EEXIST) { // the pid is still in use
		next, err = barefork.Start(script, barefork.Options{PID: first.PID})
	}
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := uint64(0) // as if the socket had been full
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
		t.Errorf("got EXIT %+v, known fields %v", ev.Task.Exit, ev.Task.Known)
	}
}

// A message from a socket other than the kernel's is ignored.
func TestSpoofIsIgnored(t *testing.T) {
	s := openOnKernel(t, Options{Enrich: source.EnrichNone})
	port, err := unix.Getsockname(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const pid = 4_000_000 // unused, and above pid_max of most machines
	fake := record(Exec, 0, 1, now(), pid, pid)
	if err := unix.Sendto(fd, fake, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port.(*unix.SockaddrNetlink).Pid}); err != nil {
		t.Skip(err)
	}
	to := &sink{room: 1 << 20}
	watch(t, s, to, func() bool { return s.foreign > 0 })
	if n := len(to.events.Of(pid, engine.KindExec)); n != 0 {
		t.Errorf("got %d events from a forged message, want 0", n)
	}
	if st, _ := s.Stats(); st.LostTotal() != 0 || s.foreign != 1 {
		t.Errorf("got stats %+v, %d rejected messages", st, s.foreign)
	}
}

func TestKinds(t *testing.T) {
	conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return openOnKernel(t, Options{}, shared) },
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
				s := openOnKernel(t, Options{Enrich: enrich}, source.Options{Kinds: c.kinds, Exits: c.exits})
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
						break // its EXIT was delivered
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

// If the engine's buffer is full, messages stay in the socket.
func TestFullBuffer(t *testing.T) {
	for _, enrich := range []source.Enrich{source.EnrichFull, source.EnrichNone} {
		s := openOnKernel(t, Options{Enrich: enrich})
		to := &sink{room: 7}
		storm(t, 100)
		pids := map[uint32]int{}
		for deadline := time.Now().Add(5 * time.Second); len(pids) < 100 && time.Now().Before(deadline); {
			if err := s.Populate(to); err != nil {
				t.Fatal(err)
			}
			if len(to.events) > to.room {
				t.Fatalf("got %d events in a buffer for %d", len(to.events), to.room)
			}
			for _, ev := range to.events {
				if ev.Kind == engine.KindExit {
					pids[ev.PID]++
				}
			}
			to.events = to.events[:0]
		}
		if st, _ := s.Stats(); len(pids) < 100 || st.LostTotal() != 0 {
			t.Errorf("got %d EXITs of 100, stats %+v", len(pids), st)
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
	openOnKernel(t, Options{}).Close() // the first Open opens descriptors that are never closed
	before := openFDs(t)
	for range 10 {
		s := openOnKernel(t, Options{})
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

// In another network namespace there is no proc connector, and the error of Open says so.
func TestOpenInOtherNetworkNamespace(t *testing.T) {
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
// meanwhile, so the test uses the call with the fewest allocations.
func TestPopulateAllocatesNothing(t *testing.T) {
	for _, enrich := range []source.Enrich{source.EnrichFull, source.EnrichNone} {
		s := openOnKernel(t, Options{Enrich: enrich})
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
			t.Errorf("enrich %d: got %d events, started %d processes", enrich, pool.N, made)
		}
	}
}

// A source still reads events and the public files of /proc after chroot and setuid.
func TestDropPrivileges(t *testing.T) {
	openOnKernel(t, Options{}).Close()
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

// The kernel's answer follows the messages that the socket already has. If the answer is dropped,
// the source asks again.
func TestAnswerAfterMessages(t *testing.T) {
	for _, room := range []int{defaultReceiveBuffer, 16 << 10} {
		s := openOnKernel(t, Options{Enrich: source.EnrichNone})
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
