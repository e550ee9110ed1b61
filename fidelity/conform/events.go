package conform

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

// Events is a list of raw events of a source.
type Events []*engine.RawEvent

// Of returns the events of a process that have this kind.
func (evs Events) Of(pid int, kind engine.Kind) (of Events) {
	for _, ev := range evs {
		if int(ev.PID) == pid && ev.Kind == kind {
			of = append(of, ev)
		}
	}
	return of
}

// One returns the only event of a process that has this kind. The test fails if there are none or
// several.
func (evs Events) One(t testing.TB, pid int, kind engine.Kind) *engine.RawEvent {
	t.Helper()
	of := evs.Of(pid, kind)
	if len(of) != 1 {
		t.Fatalf("got %d %v events of pid %d, want 1: %s", len(of), kind, pid, evs.Kinds(pid))
	}
	return of[0]
}

// Kinds formats the events of a process for a failure message.
func (evs Events) Kinds(pid int) string {
	var s []string
	for _, ev := range evs {
		if int(ev.PID) == pid {
			s = append(s, fmt.Sprintf("%v(tid %d, thread %v, %q %q)", ev.Kind, ev.TID, ev.Thread,
				ev.Bytes(engine.FieldComm), ev.Bytes(engine.FieldExe)))
		}
	}
	return strings.Join(s, " ")
}

// Room implements, with Reserve, Insert and Release, an [engine.Sink] that keeps all events.
func (evs *Events) Room() int { return 1 << 20 }

// Reserve implements engine.Sink.
func (evs *Events) Reserve() *engine.RawEvent { return new(engine.RawEvent) }

// Insert implements engine.Sink.
func (evs *Events) Insert(ev *engine.RawEvent) { *evs = append(*evs, ev) }

// Release implements engine.Sink.
func (evs *Events) Release(*engine.RawEvent) {}

// Drain returns the queued events of s, in the order of their time. The test fails if s could not
// decode a record.
func Drain(t testing.TB, s engine.Source) Events {
	t.Helper()
	evs, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(evs, func(ev *engine.RawEvent) bool { return ev.Kind == engine.KindGap })
}

func drain(s engine.Source) (evs Events, err error) {
	if err := s.Populate(&evs); err != nil {
		return nil, fmt.Errorf("populate: %w", err)
	}
	slices.SortStableFunc(evs, func(a, b *engine.RawEvent) int { return cmp.Compare(a.Time, b.Time) })
	st, err := s.Stats()
	if err == nil && st.Lost[engine.LossDecode] != 0 {
		err = fmt.Errorf("the source could not decode %d records", st.Lost[engine.LossDecode])
	}
	return evs, err
}

// Pinned runs processes one after the other on a CPU, and returns their pids.
func Pinned(t testing.TB, cpu, n int) (pids []int) {
	t.Helper()
	for range n {
		p, err := barefork.Start(new(barefork.Script).Pin(cpu).Exit(3), barefork.Options{Share: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := children.Wait(p.PID); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID)
		p.Free()
	}
	return pids
}

// Run drains s, runs a command and returns the events that s reports meanwhile. The test fails if
// the command does not start, or if its program calls Try with an error.
func Run(t testing.TB, s engine.Source, c *exec.Cmd) Events {
	t.Helper()
	Drain(t, s)
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == tryFailed {
			t.Fatal(err)
		}
	}
	// wait(2) can return before the source reports the end, and a source may report it twice.
	var evs Events
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if evs = append(evs, Drain(t, s)...); len(evs.Of(c.Process.Pid, engine.KindExit)) > 0 {
			break
		}
	}
	time.Sleep(5 * time.Millisecond)
	return append(evs, Drain(t, s)...)
}

// programVariable makes a test binary run a program instead of its tests.
const programVariable = "QUARK_CONFORM_PROGRAM"

// tryFailed is the exit code of a child with an error.
const tryFailed = 99

func init() {
	if os.Getenv(programVariable) != "" {
		runtime.LockOSThread() // programs run on the leader thread
	}
}

// Main is the TestMain of a package that uses this one. programs are the programs for Child, in
// addition to "exit" and "succeed", which exit at once with 7 and 0.
func Main(m *testing.M, programs map[string]func()) {
	scenario.Main()
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	switch name {
	case "exit":
		os.Exit(7)
	case "succeed":
		os.Exit(0)
	}
	program := programs[name]
	if program == nil {
		Try("start", fmt.Errorf("the test binary has no program %q", name))
	}
	program()
	os.Exit(0)
}

// Child is a command that runs a program of this test binary.
func Child(program string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), programVariable+"="+program)
	c.Stderr = os.Stderr
	return c
}

// Try ends a child with an error; Run then fails the test.
func Try(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "child: %s: %v\n", what, err)
		os.Exit(tryFailed)
	}
}

// Dropped runs in a program that has opened a source. It changes the root, drops its privileges,
// ends the current output line, waits until the source wakes it, and prints the source's counters
// on request. The parent calls WantDropped.
func Dropped(s engine.Source) {
	Try("chroot", unix.Chroot(os.TempDir()))
	Try("chdir", unix.Chdir("/"))
	Try("setgroups", syscall.Setgroups(nil))
	Try("setresgid", syscall.Setresgid(65534, 65534, 65534))
	Try("setresuid", syscall.Setresuid(65534, 65534, 65534))
	for !s.Arm(true) {
		Try("populate", s.Populate(engine.NewBuffer(1000)))
	}
	fmt.Println()
	for {
		n, err := Poll(s, 5*time.Second)
		if n == 1 {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			Try("poll", fmt.Errorf("the next event woke %d descriptors: %w", n, err))
		}
	}
	fmt.Scanln()
	if f, ok := s.(engine.Finisher); ok {
		f.Finish() // to read buffered events too
	}
	b := engine.NewBuffer(1000)
	Try("populate", s.Populate(b))
	st, err := s.Stats()
	Try("stats", err)
	fmt.Println(b.Len(), st.Produced)
}

// Start starts a command, waits until it has written output, and returns its standard input and
// output. The end of the test kills it.
func Start(t testing.TB, c *exec.Cmd) (in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	in, inErr := c.StdinPipe()
	pipe, outErr := c.StdoutPipe()
	if err := errors.Join(inErr, outErr, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	out = bufio.NewReader(pipe)
	if _, err := out.Peek(1); err != nil {
		t.Fatalf("%s: %v", c.Path, err)
	}
	return in, out
}

// Poll waits for the descriptor of s to become readable and returns the result of poll(2).
func Poll(s engine.Source, timeout time.Duration) (int, error) {
	return unix.Poll([]unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}, int(timeout.Milliseconds()))
}

// WantDropped starts a program that calls Dropped, and fails the test unless its source reports a
// process. It returns the child and the line that it wrote before Dropped. The end of the test
// kills the child.
func WantDropped(t testing.TB, program string) (c *exec.Cmd, said string) {
	t.Helper()
	c = Child(program)
	in, out := Start(t, c)
	lines := bufio.NewScanner(out)
	lines.Scan()
	said = lines.Text()
	Child("exit").Run()
	time.Sleep(10 * time.Millisecond) // wait(2) can return before the end is reported
	fmt.Fprintln(in)
	if !lines.Scan() {
		t.Fatal("the child ended before it printed the counters")
	}
	var events, produced int
	if n, err := fmt.Sscan(lines.Text(), &events, &produced); n != 2 || events < 3 || produced < events {
		t.Errorf("got %q delivered and produced events, want at least 3 delivered and as many produced (error %v)", lines.Text(), err)
	}
	return c, said
}

// OpenFDs returns the number of open descriptors of this process.
func OpenFDs(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
