package audit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/retry"
)

// left opens a source, prints a line, and waits until it is killed.
func left() {
	_, err := Open(source.Options{}, Options{Enable: true})
	conform.Try("open", err)
	fmt.Println("open")
	unix.Pause()
}

// opens prints a line and opens a source.
func opens() {
	fmt.Println("opens")
	left()
}

// control returns a connection that is closed at the end of the test.
func control(t *testing.T) *auditrule.Control {
	t.Helper()
	guest(t)
	c, err := auditrule.Open()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func rulesOf(t *testing.T, c *auditrule.Control) [][]byte {
	t.Helper()
	list, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func ours(list [][]byte) (n int) {
	for _, b := range list {
		if r, err := auditrule.Parse(b); err == nil {
			if _, _, ok := owner.Parse(r.Key()); ok {
				n++
			}
		}
	}
	return n
}

// foreign adds a rule of another program until the test ends.
func foreign(t *testing.T, c *auditrule.Control) {
	t.Helper()
	r := auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Always, Fields: []auditrule.Field{
		{Field: auditrule.FieldArch, Value: uint32(auditrecord.Native(runtime.GOARCH)[0])}, {Field: auditrule.FieldKey, Text: "quarkish"},
	}}
	_, nr := native(auditrecord.Exec)
	r.Select(nr)
	if err := c.Add(r.Bytes()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(r.Bytes()); err != nil {
			t.Error(err)
		}
	})
}

// The rules after Close are the rules from before Open, even if other programs have rules. Two
// sources do not change each other's rules.
func TestRulesAreRemoved(t *testing.T) {
	c := control(t)
	foreign(t, c)
	before := rulesOf(t, c)
	a := open(t, Options{}, source.Options{})
	if n, want := ours(rulesOf(t, c)), len(wanted(&a.shared, a.rules.key)); n != want {
		t.Errorf("%d rules, not %d", n, want)
	}
	middle := rulesOf(t, c)
	b := open(t, Options{}, source.Options{Kinds: engine.EventExec})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if after := rulesOf(t, c); !reflect.DeepEqual(after, middle) {
		t.Errorf("after the second source: got %d rules, want %d", len(after), len(middle))
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if after := rulesOf(t, c); !reflect.DeepEqual(after, before) {
		t.Errorf("after Close: got %d rules, want %d", len(after), len(before))
	}
}

// Open removes the rules that a killed process left behind, and no others.
func TestLeftovers(t *testing.T) {
	c := control(t)
	foreign(t, c)
	other := open(t, Options{}, source.Options{Kinds: engine.EventExec}) // which lives
	before := rulesOf(t, c)
	child := conform.Child("left")
	conform.Start(t, child)
	if n := ours(rulesOf(t, c)); n <= ours(before) {
		t.Fatalf("with the child: got %d rules of sources, without it %d", n, ours(before))
	}
	child.Process.Kill()
	child.Wait()
	if ours(rulesOf(t, c)) == ours(before) {
		t.Fatal("the killed process left no rules")
	}
	open(t, Options{}, source.Options{}).Close()
	if after := rulesOf(t, c); !reflect.DeepEqual(after, before) {
		t.Errorf("after the next Open and Close: got %d rules, want %d", len(after), len(before))
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// Audit is enabled only on request, and is disabled when its last user closes.
func TestEnable(t *testing.T) {
	c := control(t)
	enabled := func() uint32 {
		st, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		return st.Enabled
	}
	was := enabled()
	defer c.Enable(was)
	if err := c.Enable(auditrule.Off); err != nil {
		t.Skip(err)
	}
	if s, err := Open(source.Options{}, Options{}); err == nil || !strings.Contains(err.Error(), "audit=1") || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, %v", s, err)
	}
	if enabled() != auditrule.Off || ours(rulesOf(t, c)) != 0 {
		t.Error("Open without Enable has changed something")
	}
	s := open(t, Options{}, source.Options{})
	if enabled() != auditrule.On {
		t.Error("it is not enabled")
	}
	if s.Close(); enabled() != auditrule.Off {
		t.Error("it is enabled after Close")
	}
	// The last source disables audit, even if the first one was killed.
	s = open(t, Options{}, source.Options{})
	other := open(t, Options{}, source.Options{})
	if s.Close(); enabled() != auditrule.On {
		t.Error("Close has disabled it while another source uses it")
	}
	if other.Close(); enabled() != auditrule.Off {
		t.Error("it is enabled after the second source's Close")
	}
	child := conform.Child("left")
	conform.Start(t, child)
	child.Process.Kill()
	child.Wait()
	if open(t, Options{}, source.Options{}).Close(); enabled() != auditrule.Off {
		t.Error("it is enabled though the one that did so was killed, and another source has come and gone")
	}
	s = open(t, Options{}, source.Options{})
	foreign(t, c)
	before := len(rulesOf(t, c)) - len(s.rules.added) - 1
	if s.Close(); enabled() != auditrule.On {
		t.Error("Close has disabled it while another has a rule")
	}
	if after := len(rulesOf(t, c)); after != before {
		t.Errorf("audit used by another program: got %d rules, want %d", after, before)
	}
}

// The next source disables audit if all earlier ones were killed.
func TestKilled(t *testing.T) {
	c := control(t)
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Enable(st.Enabled)
	left, takes := 0, time.Duration(0)
	for i := range 25 {
		if err := c.Enable(auditrule.Off); err != nil {
			t.Skip(err)
		}
		first, second := conform.Child("opens"), conform.Child("opens")
		_, out := conform.Start(t, first)
		began := time.Now()
		for range 2 {
			out.ReadString('\n')
		}
		takes = max(takes, time.Since(began))
		first.Process.Kill()
		first.Wait()
		conform.Start(t, second)
		time.Sleep(takes * time.Duration(i) / 25)
		second.Process.Kill()
		second.Wait()
		open(t, Options{}, source.Options{}).Close()
		if st, err := c.Status(); err != nil || st.Enabled != auditrule.Off {
			left++
		}
		if n := len(rulesOf(t, c)); n != 0 {
			t.Errorf("%d rules are left", n)
		}
	}
	if left > 0 {
		t.Errorf("after %d of 25 killed pairs of sources audit is still enabled", left)
	}
}

// If another program removes rules, they are added again and a gap is reported. If it disables
// audit, reading ends with an error.
func TestDisturbed(t *testing.T) {
	c := control(t)
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	if err := c.Delete(s.rules.added[0]); err != nil {
		t.Fatal(err)
	}
	var evs conform.Events
	if err := populateUntil(t, s, &evs, func() bool { return len(evs.Of(0, engine.KindGap)) > 0 }); err != nil {
		t.Fatal(err)
	}
	if len(evs) == 0 || evs[0].Kind != engine.KindGap || ours(rulesOf(t, c)) != len(wanted(&s.shared, s.rules.key)) {
		t.Errorf("%d events, %d rules", len(evs), ours(rulesOf(t, c)))
	}
	if err := c.Enable(auditrule.Off); err != nil {
		t.Skip(err)
	}
	defer c.Enable(auditrule.On)
	err := populateUntil(t, s, &evs, func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("%v", err)
	}
}

// The socket counts records that it drops while nobody reads, and gaps report all of them.
func TestLoss(t *testing.T) {
	s := open(t, Options{ReceiveBuffer: 1}, source.Options{})
	var evs conform.Events
	from := s.now()
	for range 3 {
		for range 10 {
			conform.Child("exit").Run()
		}
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
	}
	var told uint64
	for range retry.For(5 * time.Second) {
		conform.Child("exit").Run() // its numbers show the missing ones
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
	}
	for _, ev := range evs {
		if ev.Kind == engine.KindGap {
			if told += ev.Gap.Count; ev.Gap.From >= ev.Gap.To || ev.Gap.To < from {
				t.Errorf("gap %+v", *ev.Gap)
			}
		}
	}
	st, err := s.Stats()
	if err != nil || st.Lost[engine.LossSocketFull] < 30 || told != st.LostTotal() || st.Lost[engine.LossDecode] != 0 {
		t.Errorf("lost %v, told %d, %v", st.Lost, told, err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	open(t, Options{}, source.Options{}).Close()
	before := conform.OpenFDs(t)
	for range 3 {
		s := open(t, Options{}, source.Options{})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Populate(new(conform.Events)); !errors.Is(err, os.ErrClosed) || s.FD() != -1 || s.Arm(true) {
			t.Errorf("Populate after Close: got error %v", err)
		}
	}
	if after := conform.OpenFDs(t); after != before {
		t.Errorf("got %[2]d open descriptors, want %[1]d", before, after)
	}
}

// An error names the missing privilege. The thread without privileges ends with the test.
func TestOpenRefuses(t *testing.T) {
	guest(t)
	for _, c := range []struct {
		name string
		flag int     // of unshare(2)
		drop uintptr // or the capability that is dropped
		want string
	}{
		{"without CAP_AUDIT_CONTROL", 0, unix.CAP_AUDIT_CONTROL, "CAP_AUDIT_CONTROL"},
		{"without CAP_AUDIT_READ", 0, unix.CAP_AUDIT_READ, "CAP_AUDIT_READ"},
		{"in another network namespace", unix.CLONE_NEWNET, 0, "--net=host"},
	} {
		refused := make(chan error)
		go func() {
			runtime.LockOSThread()
			if c.flag != 0 {
				if err := unix.Unshare(c.flag); err != nil {
					refused <- nil
					return
				}
			} else {
				header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
				if unix.Capget(&header, &caps[0]) == nil {
					caps[c.drop/32].Effective &^= 1 << (c.drop % 32)
					unix.Capset(&header, &caps[0])
				}
			}
			s, err := Open(source.Options{}, Options{Enable: true})
			if err == nil {
				s.Close()
				err = errors.New("it opened")
			}
			refused <- err
		}()
		if err := <-refused; err == nil {
			t.Logf("%s: unshare fails on this machine", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for flag, want := range map[uintptr]string{unix.CLONE_NEWUSER: "user namespace", unix.CLONE_NEWPID: "pid namespace"} {
		child := conform.Child("refused")
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
		out, err := child.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Logf("%s: not tried: %v", want, err)
		} else if !strings.Contains(string(out), want) {
			t.Errorf("%s: %q, %v", want, out, err)
		}
	}
}

// refused prints the error of opening a source.
func refused() {
	_, err := Open(source.Options{}, Options{Enable: true})
	fmt.Println(err)
}

// The birth of a process that waits is reported with its fields from /proc.
func TestBirths(t *testing.T) {
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	c := conform.Child("exit")
	in, _ := conform.Start(t, conform.Child("waits"))
	evs := conform.Run(t, s, c)
	in.Close()
	born := 0
	for _, ev := range evs {
		if ev.Kind == engine.KindFork {
			born++
			if ev.Creator == 0 || !ev.Task.Known.Has(engine.FieldPPID) {
				t.Errorf("%+v", ev)
			}
		}
	}
	exec, exit := evs.One(t, c.Process.Pid, engine.KindExec), evs.One(t, c.Process.Pid, engine.KindExit)
	if born == 0 || exec.Task.PPID != uint32(os.Getpid()) || exit.Task.Known.Has(engine.FieldExit) && exit.Task.Exit.WaitStatus != 7<<8 {
		t.Errorf("%d births; %+v", born, exit.Task)
	}
}

// waits prints a line, and waits until its input ends.
func waits() {
	fmt.Println("runs")
	fmt.Scanln()
}
