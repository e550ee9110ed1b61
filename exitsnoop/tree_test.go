package exitsnoop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/barefork"
	forked "github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/retry"
)

// selfTree traces the tree of this process, so that all processes of a test are traced.
func selfTree(t *testing.T, s *Store) (id uint64) {
	t.Helper()
	id, err := s.TraceTree(uint32(os.Getpid()), TreeOptions{})
	ok(t, err)
	t.Cleanup(func() { s.DeleteTracingTask(uint32(os.Getpid())) })
	return id
}

// exits returns the recorded exits by pid.
func exits(t *testing.T, s *Store) map[uint32]Exit {
	t.Helper()
	all, err := s.ExitedEvents()
	ok(t, err)
	byPid := map[uint32]Exit{}
	for _, e := range all {
		byPid[e.Pid] = e
	}
	return byPid
}

// startAs starts this binary as one of children, by bare system calls: os/exec may start more
// processes.
func startAs(mode, root string, args ...string) (*barefork.Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append([]string{path, root}, args...)
	return barefork.Start(script().Exec(path, argv, []string{childMode + "=" + mode}), barefork.Options{})
}

// reapAndPrint waits for a child, and prints its pid and its wait status.
func reapAndPrint(p *barefork.Process, born uint64) error {
	defer p.Free()
	before := clock.Monotonic()
	var st syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.PID, &st, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil {
			_, err = fmt.Println(p.PID, uint32(st), born, before)
		}
		return err
	}
}

// daemonize is a daemon that starts by two forks, as daemons do, and then starts short-lived
// children. Each process prints how its children ended. The daemon prints its own end, because its
// parent is gone.
func daemonize(stage string, args []string) error {
	switch stage {
	case "starter":
		if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
			return err
		}
		p, err := startAs("daemonize", "middle", args...)
		if err != nil {
			return err
		}
		if err := reapAndPrint(p, clock.Monotonic()); err != nil {
			return err
		}
		os.Exit(3)
	case "middle":
		if _, err := startAs("daemonize", "daemon", append(args, strconv.Itoa(os.Getpid()))...); err != nil {
			return err
		}
		os.Exit(4)
	}
	for range retry.For(time.Minute) {
		if strconv.Itoa(os.Getppid()) != args[1] {
			break
		}
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range n {
		p, err := barefork.Start(script().Exit(i%200), barefork.Options{Share: i%2 == 0})
		if err != nil {
			return err
		}
		if err := reapAndPrint(p, clock.Monotonic()); err != nil {
			return err
		}
	}
	fmt.Println(os.Getpid(), 5<<8, 0, 0)
	os.Exit(5)
	return nil
}

// truth is the end of a process as its parent has seen it.
type truth struct {
	status syscall.WaitStatus
	// born is a time before the fork. ended is a time when the process still ran, if its parent
	// reports one. Both are of CLOCK_MONOTONIC.
	born, ended uint64
}

// reporter is a child of the test that prints ends of processes.
type reporter struct {
	*exec.Cmd
	gate  io.WriteCloser
	lines *bufio.Scanner
	ends  map[uint32]truth
}

func startReporter(t *testing.T, mode, root string, args ...string) *reporter {
	t.Helper()
	c := child(mode, root, args...)
	gate, err := c.StdinPipe()
	ok(t, err)
	out, err := c.StdoutPipe()
	ok(t, err)
	ok(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return &reporter{c, gate, bufio.NewScanner(out), map[uint32]truth{}}
}

// next reads the end of a process, and returns false after the last one.
func (r *reporter) next(t *testing.T) (end truth, more bool) {
	t.Helper()
	if !r.lines.Scan() {
		return end, false
	}
	var pid uint32
	_, err := fmt.Sscan(r.lines.Text(), &pid, &end.status, &end.born, &end.ended)
	ok(t, err)
	r.ends[pid] = end
	return end, true
}

// rest returns all ends, including the reporter's.
func (r *reporter) rest(t *testing.T) map[uint32]truth {
	t.Helper()
	for more := true; more; {
		_, more = r.next(t)
	}
	r.Wait()
	r.ends[uint32(r.Process.Pid)] = truth{status: r.ProcessState.Sys().(syscall.WaitStatus)}
	return r.ends
}

// TestTreeOfDaemon checks that each of a daemon's processes is recorded with its true status.
func TestTreeOfDaemon(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	dir := root(t)
	ok(t, EnsureRunning(dir))
	s := pinnedStore(t, dir)
	c := startReporter(t, "daemonize", "starter", strconv.Itoa(n))
	pid := uint32(c.Process.Pid)
	id, err := s.TraceTree(pid, TreeOptions{TaskInfo: TaskInfo{TraceID: 42}})
	ok(t, err)
	if id != 42 {
		t.Errorf("traced as %d", id)
	}
	_, err = c.gate.Write([]byte{1})
	ok(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got := make(chan map[uint32]Exit, 1)
	go func() {
		all := map[uint32]Exit{}
		for ev, err := range s.Events(ctx, id) {
			if err != nil {
				t.Errorf("trace %d: %v", ev.TraceID, err)
			}
			if _, twice := all[ev.Pid]; twice {
				t.Errorf("%d was yielded twice", ev.Pid)
			}
			all[ev.Pid] = ev
			if err := s.DeleteExitedEvent(ev.TraceID); err != nil {
				t.Error(err)
			}
		}
		got <- all
	}()
	want, all := c.rest(t), <-got
	if ctx.Err() != nil {
		t.Error("the iteration has not ended")
	}
	if len(want) != n+3 {
		t.Fatalf("%d processes, want %d", len(want), n+3)
	}
	ids := map[uint64]bool{0: true}
	for _, ev := range all {
		ids[ev.TraceID] = true
	}
	for pid, end := range want {
		if ev := all[pid]; ev.WaitStatus() != end.status || ev.Tree != id || !ids[ev.Parent] || (ev.Parent == 0) != (ev.TraceID == id) {
			t.Errorf("%d: got %+v, want %#x as its parent got", pid, ev, end.status)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d exits, want %d", len(all), len(want))
	}
	st, err := s.Stats()
	ok(t, err)
	if st.Recorded != uint64(n+3) || st.Descendants != uint64(n+2) || st.Untraced != 0 || st.Tracing != 0 || st.Uncollected != 0 || st.Lost+st.Unseen != 0 {
		t.Errorf("%+v", st)
	}
	if left, err := s.allMembers(); err != nil || len(left) != 0 {
		t.Errorf("got remaining members %v, error %v", left, err)
	}
}

// forkOn has short-lived children, and eight at a time that run until the gate opens.
func forkOn(string, []string) error {
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	stop := make(chan bool)
	go func() { os.Stdin.Read(make([]byte, 1)); close(stop) }()
	type kept struct {
		p    *barefork.Process
		born uint64
	}
	var all []kept
	for i := 0; ; i++ {
		select {
		case <-stop:
			unix.Close(gate[1])
			for _, k := range all {
				if err := reapAndPrint(k.p, k.born); err != nil {
					return err
				}
			}
			os.Exit(7)
		default:
		}
		born := clock.Monotonic()
		if i%10 == 0 && len(all) < 50 {
			p, err := barefork.Start(script().Call("close", unix.SYS_CLOSE, gate[1]).WaitFor(gate[0]).Exit(i%200), barefork.Options{})
			if err != nil {
				return err
			}
			all = append(all, kept{p, born})
			continue
		}
		p, err := barefork.Start(script().Exit(i%200), barefork.Options{Share: true})
		if err != nil {
			return err
		}
		if err := reapAndPrint(p, born); err != nil {
			return err
		}
	}
}

// TestTreeRace begins to trace processes while they fork. No later child may be missed, and with
// Existing no earlier one that still runs.
func TestTreeRace(t *testing.T) {
	s := private(t, Options{MaxEvents: 1 << 17, MaxTracing: 1 << 17})
	for i := range 10 {
		existing := i%2 == 0
		c := startReporter(t, "fork", "")
		for range 10 + i {
			c.next(t)
		}
		kept := map[uint32]bool{}
		there, err := forked.Of(c.Process.Pid)
		ok(t, err)
		for _, pid := range there {
			kept[uint32(pid)] = true
		}
		id, err := s.TraceTree(uint32(c.Process.Pid), TreeOptions{Existing: existing})
		ok(t, err)
		after := clock.Monotonic()
		for later := 0; later < 50; {
			end, more := c.next(t)
			if !more {
				t.Fatal("the process has ended")
			}
			if end.born > after {
				later++
			}
		}
		c.gate.Close()
		want := c.rest(t)
		all := exits(t, s)
		for pid, end := range want { // a short-lived one may have ended before
			kept[pid] = kept[pid] && end.ended > after
		}
		var later, earlier int
		for pid, end := range want {
			ev, traced := all[pid]
			if traced && (ev.Tree != id || ev.WaitStatus() != end.status) {
				t.Errorf("%d: got %+v, want %#x as its parent got", pid, ev, end.status)
			}
			switch {
			case traced && end.born > after:
				later++
			case traced && end.born != 0:
				earlier++
			case end.born > after:
				t.Errorf("process %d, born %d ns later, is not traced", pid, end.born-after)
			case existing && kept[pid]:
				t.Errorf("existing process %d is not traced", pid)
			}
		}
		if later == 0 || existing && earlier == 0 {
			t.Errorf("%d born later and %d born earlier are traced", later, earlier)
		}
		for pid := range all {
			if _, is := want[pid]; !is {
				t.Errorf("process %d is traced, but not in the tree", pid)
			}
		}
		for _, ev := range all {
			ok(t, s.DeleteExitedEvent(ev.TraceID))
		}
	}
	if st, err := s.Stats(); err != nil || st.Untraced+st.Lost+st.Unseen != 0 || st.Tracing != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestTreePidReuse reuses the pid of a member, also while a stale entry exists for the pid.
func TestTreePidReuse(t *testing.T) {
	s := private(t, Options{})
	selfTree(t, s)
	first := start(t, script().Exit(1))
	pid := uint32(first.PID)
	reap(t, pid)
	one := exits(t, s)[pid]
	for code, stale := range map[int]bool{2: false, 3: true} {
		if stale {
			ok(t, s.addTask(pid, &programsTask{TraceId: 99, StartMin: 1, StartEnd: 2}, nil))
		}
		_, err := barefork.Start(script().Exit(code), barefork.Options{PID: int(pid)})
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EINVAL) {
			t.Skip("the pid is taken, or the kernel does not allow choosing it")
		}
		ok(t, err)
		reap(t, pid)
		all, err := s.ExitedEvents()
		ok(t, err)
		last := all[len(all)-1]
		if last.Pid != pid || last.WaitStatus().ExitStatus() != code || last.StartBoottime == one.StartBoottime || last.TraceID == one.TraceID {
			t.Errorf("got %+v, want exit status %d", last, code)
		}
		if st, err := s.GetExitedEvent(one.TraceID); err != nil || st.WaitStatus().ExitStatus() != 1 {
			t.Errorf("got first process %+v, error %v", st, err)
		}
	}
	e, err := s.event(99)
	ok(t, err)
	e.StoredTime -= uint64(exitTimeout) // as if traced long ago
	ok(t, s.events.Update(uint64(99), e, 0))
	_, err = s.Wait(context.Background(), 99)
	want(t, err, ErrLost)
}

// TestTreeFull checks that a process without room is counted once, by one program or by two.
func TestTreeFull(t *testing.T) {
	for _, o := range []Options{{MaxTracing: 4, MaxEvents: 100}, {MaxTracing: 100, MaxEvents: 4}} {
		for _, without := range append([]string{""}, linkNames[2:]...) {
			s := private(t, o)
			if without != "" {
				ok(t, s.links[without].Close())
				delete(s.links, without)
			}
			selfTree(t, s)
			for range 10 {
				sleeper(t)
			}
			st, err := s.Stats()
			ok(t, err)
			if st.Tracing != 4 || st.Descendants != 3 || st.Untraced != 7 {
				t.Errorf("%+v without %q: %+v", o, without, st)
			}
			if left, err := s.allMembers(); err != nil || len(left) != 4 {
				t.Errorf("%d members, %v", len(left), err)
			}
			ok(t, s.Close())
		}
	}
}

// TestTreeMembers checks that the tree includes children of threads, of a process without its
// leader, and of other pid namespaces, and processes that were already traced, but no threads.
func TestTreeMembers(t *testing.T) {
	s := private(t, Options{})
	id := selfTree(t, s)
	gate := pipe(t)
	p := start(t, script().Thread(script().WaitFor(gate.r).Exit(6)).ExitThread(1))
	awaitZombie(t, uint32(p.PID))
	gate.open(t)
	reap(t, uint32(p.PID))
	inner, err := barefork.Start(script().Exit(8), barefork.Options{Flags: unix.CLONE_NEWPID})
	ok(t, err)
	defer inner.Free()
	reap(t, uint32(inner.PID))
	all := exits(t, s)
	for pid, code := range map[int]int{p.PID: 6, inner.PID: 8} {
		if ev := all[uint32(pid)]; ev.WaitStatus().ExitStatus() != code || ev.Tree != id || ev.Parent != id {
			t.Errorf("got %+v, want exit status %d", ev, code)
		}
	}
	st, err := s.Stats()
	ok(t, err)
	if st.Descendants != 2 || st.WrongNamespace+st.WrongStart+st.Lost != 0 {
		t.Errorf("%+v", st)
	}

	// One child existed before TraceTree, and another was already traced by Trace.
	ok(t, s.DeleteTracingTask(uint32(os.Getpid())))
	pid := sleeper(t)
	selfTree(t, s)
	_, err = s.GetTracingTask(pid)
	want(t, err, ErrNotTraced)
	ok(t, s.DeleteTracingTask(uint32(os.Getpid())))
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 7}))
	id, err = s.TraceTree(uint32(os.Getpid()), TreeOptions{Existing: true})
	ok(t, err)
	tasks, err := s.Tasks()
	ok(t, err)
	i := slices.IndexFunc(tasks, func(task Task) bool { return task.Pid == pid })
	if i < 0 || tasks[i].TraceID != 7 || tasks[i].Membership != (Membership{id, id}) {
		t.Errorf("traced are %+v", tasks)
	}
	end(t, pid)
	if _, err := s.GetExitedEvent(7); err != nil {
		t.Error(err)
	}
}

// TestRepairTree repairs the pins of trees: a child that is born while no program runs is found
// later, and new maps have the sizes of the old ones.
func TestRepairTree(t *testing.T) {
	dir := root(t)
	p := newPinDir(dir)
	_, err := EnsureRunningWith(dir, Options{MaxEvents: 5})
	ok(t, err)
	unpinAll(t, p, append([]string{programsMapTreeMembers, programsMapTreeCounters}, linkNames[2:]...)...)
	want(t, Verify(dir), ErrNotRunning)
	_, err = NewStore(dir)
	want(t, err, ErrNotRunning)
	ok(t, EnsureRunning(dir))
	s := pinnedStore(t, dir)
	if n := s.members.MaxEntries(); n != 5 {
		t.Errorf("got room for %d members, want 5", n)
	}
	id := selfTree(t, s)
	unpinAll(t, p, linkNames[2:]...)
	child := sleeper(t)
	ok(t, EnsureRunning(dir))
	truth := end(t, child)
	if ev := exits(t, s)[child]; ev.WaitStatus() != truth || ev.Tree != id {
		t.Errorf("got %+v, want %#x as from wait4", ev, truth)
	}
}

// TestBlocked: a process that blocks reads of its stat file does not prevent the tracing of others.
func TestBlocked(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for three reads that time out")
	}
	dir := root(t)
	ok(t, EnsureRunning(dir))
	s := pinnedStore(t, dir)
	blocked, gone := sleeper(t), sleeper(t)
	ok(t, s.Trace(blocked, &TaskInfo{TraceID: 1}))
	ok(t, s.Trace(gone, &TaskInfo{TraceID: 2}))
	id := selfTree(t, s)
	unpinAll(t, newPinDir(dir), linkNames...)
	end(t, gone)
	born := sleeper(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	ok(t, unix.Mkfifo(fifo, 0o600))
	c := child("blocked", dir, fifo, fmt.Sprintf("/proc/%d/stat", blocked))
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	ok(t, c.Run())
	_, err := s.GetExitedEvent(2)
	want(t, err, ErrLost)
	for _, pid := range []uint32{blocked, born} {
		truth := end(t, pid)
		if ev := exits(t, s)[pid]; ev.WaitStatus() != truth || pid == born && ev.Tree != id {
			t.Errorf("got %+v, want %#x as from wait4", ev, truth)
		}
	}
}

// traceBlocked makes reads of a file block, in its own mount namespace: the FIFO has no writer.
func traceBlocked(root string, args []string) error {
	if err := unix.Mount(args[0], args[1], "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := EnsureRunning(root); err != nil {
		return err
	}
	s, err := NewStoreFromAttach()
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := s.TraceTree(uint32(os.Getpid()), TreeOptions{Existing: true})
	if id == 0 || !errors.Is(err, errBlocked) {
		return fmt.Errorf("TraceTree returned %d: %w", id, err)
	}
	return nil
}

// TestTreeEvents checks that a running Events yields each end of a descendant once, and of a
// process that its store begins to trace, although no event is deleted.
func TestTreeEvents(t *testing.T) {
	s := private(t, Options{})
	selfTree(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	var pids []uint32
	first := sleeper(t)
	end(t, first)
	seen := map[uint32]int{}
	for ev, err := range s.Events(ctx) {
		ok(t, err)
		seen[ev.Pid]++
		if len(pids) < 20 {
			pid := sleeper(t)
			pids = append(pids, pid)
			if len(pids)%2 == 0 {
				time.AfterFunc(2*forkPollInterval, func() { unix.Kill(int(pid), unix.SIGKILL) })
				continue
			}
			end(t, pid)
		} else if len(seen) == 21 {
			break
		}
	}
	for _, pid := range append(pids, first) {
		if seen[pid] != 1 {
			t.Errorf("%d was yielded %d times", pid, seen[pid])
		}
	}
}
