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

// openAndPause opens a source, prints a line, and waits until it is killed.
func openAndPause() {
	_, err := Open(source.Options{}, Options{Enable: true})
	conform.Try("open", err)
	fmt.Println("open")
	unix.Pause()
}

// printAndOpen prints a line before it calls openAndPause.
func printAndOpen() {
	fmt.Println("opens")
	openAndPause()
}

// openControl returns an audit connection that is closed at the end of the test.
func openControl(t *testing.T) *auditrule.Control {
	t.Helper()
	needGuest(t)
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

func countQuarkRules(list [][]byte) (n int) {
	for _, b := range list {
		if r, err := auditrule.Parse(b); err == nil {
			if _, _, ok := owner.Parse(r.Key()); ok {
				n++
			}
		}
	}
	return n
}

// addForeignRule adds a rule of another program and deletes it at the end of the test.
func addForeignRule(t *testing.T, c *auditrule.Control) {
	t.Helper()
	r := auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Always, Fields: []auditrule.Field{
		{Field: auditrule.FieldArch, Value: uint32(auditrecord.Native(runtime.GOARCH)[0])}, {Field: auditrule.FieldKey, Text: "quarkish"},
	}}
	_, nr := nativeCall(auditrecord.Exec)
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

// Close restores the rules from before Open, even if other programs have rules. Two sources do not
// change each other's rules.
func TestRulesAreRemoved(t *testing.T) {
	c := openControl(t)
	addForeignRule(t, c)
	before := rulesOf(t, c)
	a := open(t, Options{}, source.Options{})
	if n, want := countQuarkRules(rulesOf(t, c)), len(wanted(&a.shared, a.rules.key)); n != want {
		t.Errorf("got %d rules, want %d", n, want)
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

// Open removes the rules of a killed process, and no others.
func TestRulesOfKilledProcess(t *testing.T) {
	c := openControl(t)
	addForeignRule(t, c)
	other := open(t, Options{}, source.Options{Kinds: engine.EventExec}) // stays open
	before := rulesOf(t, c)
	child := conform.Child("open-and-pause")
	conform.Start(t, child)
	if n := countQuarkRules(rulesOf(t, c)); n <= countQuarkRules(before) {
		t.Fatalf("with the child: got %d rules of sources, without it %d", n, countQuarkRules(before))
	}
	child.Process.Kill()
	child.Wait()
	if countQuarkRules(rulesOf(t, c)) == countQuarkRules(before) {
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
	c := openControl(t)
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
		t.Errorf("Open without Enable: got source %v, error %v", s, err)
	}
	if enabled() != auditrule.Off || countQuarkRules(rulesOf(t, c)) != 0 {
		t.Error("Open without Enable has changed the audit status or the rules")
	}
	s := open(t, Options{}, source.Options{})
	if enabled() != auditrule.On {
		t.Error("audit is disabled after Open with Enable")
	}
	if s.Close(); enabled() != auditrule.Off {
		t.Error("audit is enabled after Close")
	}
	// Audit stays enabled until the last source closes, even if the first source was killed.
	s = open(t, Options{}, source.Options{})
	other := open(t, Options{}, source.Options{})
	if s.Close(); enabled() != auditrule.On {
		t.Error("Close has disabled audit while another source uses it")
	}
	if other.Close(); enabled() != auditrule.Off {
		t.Error("audit is enabled after the second source's Close")
	}
	child := conform.Child("open-and-pause")
	conform.Start(t, child)
	child.Process.Kill()
	child.Wait()
	if open(t, Options{}, source.Options{}).Close(); enabled() != auditrule.Off {
		t.Error("audit is enabled after its source was killed and a later source was closed")
	}
	s = open(t, Options{}, source.Options{})
	addForeignRule(t, c)
	before := len(rulesOf(t, c)) - len(s.rules.added) - 1
	if s.Close(); enabled() != auditrule.On {
		t.Error("Close has disabled audit while another program has a rule")
	}
	if after := len(rulesOf(t, c)); after != before {
		t.Errorf("audit used by another program: got %d rules, want %d", after, before)
	}
}

// If all sources were killed, the next source disables audit when it closes.
func TestDisableAfterKilledSources(t *testing.T) {
	c := openControl(t)
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
		first, second := conform.Child("print-and-open"), conform.Child("print-and-open")
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
			t.Errorf("got %d rules after the last source closed, want 0", n)
		}
	}
	if left > 0 {
		t.Errorf("after %d of 25 killed pairs of sources audit is still enabled", left)
	}
}

// If another program removes quark's rules, the source adds them again and reports a gap. If
// another program disables audit, Populate returns an error.
func TestChangesByOthers(t *testing.T) {
	c := openControl(t)
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	if err := c.Delete(s.rules.added[0]); err != nil {
		t.Fatal(err)
	}
	var evs conform.Events
	if err := populateUntil(t, s, &evs, func() bool { return len(evs.Of(0, engine.KindGap)) > 0 }); err != nil {
		t.Fatal(err)
	}
	if len(evs) == 0 || evs[0].Kind != engine.KindGap || countQuarkRules(rulesOf(t, c)) != len(wanted(&s.shared, s.rules.key)) {
		t.Errorf("got %d events and %d rules", len(evs), countQuarkRules(rulesOf(t, c)))
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

// The socket drops records if nobody reads. Gaps report all dropped records.
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
		conform.Child("exit").Run() // its serial numbers show the lost ones
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
	}
	for _, ev := range evs {
		if ev.Kind == engine.KindGap {
			if told += ev.Gap.Count; ev.Gap.From >= ev.Gap.To || ev.Gap.To < from {
				t.Errorf("got wrong gap %+v", *ev.Gap)
			}
		}
	}
	st, err := s.Stats()
	if err != nil || st.Lost[engine.LossSocketFull] < 30 || told != st.LostTotal() || st.Lost[engine.LossDecode] != 0 {
		t.Errorf("got lost %v in Stats, %d in gaps, error %v", st.Lost, told, err)
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

// The error names the missing privilege. Each case runs on a thread of its own, which exits with
// the case.
func TestOpenErrors(t *testing.T) {
	needGuest(t)
	for _, c := range []struct {
		name string
		flag int     // for unshare(2); 0 for none
		drop uintptr // capability to drop, if flag is 0
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
				err = errors.New("no error")
			}
			refused <- err
		}()
		if err := <-refused; err == nil {
			t.Logf("%s: unshare fails on this machine", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want it to name "+c.want, c.name, err)
		}
	}
	for flag, want := range map[uintptr]string{unix.CLONE_NEWUSER: "user namespace", unix.CLONE_NEWPID: "pid namespace"} {
		child := conform.Child("open-error")
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
		out, err := child.Output()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Logf("%s: the child cannot start: %v", want, err)
		} else if !strings.Contains(string(out), want) {
			t.Errorf("got output %[2]q, error %[3]v, want %[1]q", want, out, err)
		}
	}
}

// printOpenError prints the error of Open.
func printOpenError() {
	_, err := Open(source.Options{}, Options{Enable: true})
	fmt.Println(err)
}

// The FORK of a child that waits has the fields from /proc.
func TestForkOfWaitingChild(t *testing.T) {
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	c := conform.Child("exit")
	in, _ := conform.Start(t, conform.Child("print-and-wait"))
	evs := conform.Run(t, s, c)
	in.Close()
	born := 0
	for _, ev := range evs {
		if ev.Kind == engine.KindFork {
			born++
			if ev.Creator == 0 || !ev.Task.Known.Has(engine.FieldPPID) {
				t.Errorf("got FORK %+v, want a creator and a ppid", ev)
			}
		}
	}
	exec, exit := evs.One(t, c.Process.Pid, engine.KindExec), evs.One(t, c.Process.Pid, engine.KindExit)
	if born == 0 || exec.Task.PPID != uint32(os.Getpid()) || exit.Task.Known.Has(engine.FieldExit) && exit.Task.Exit.WaitStatus != 7<<8 {
		t.Errorf("got %d FORKs, fields of the EXIT %+v", born, exit.Task)
	}
}

// printAndWait prints a line, and waits until its input is closed.
func printAndWait() {
	fmt.Println("runs")
	fmt.Scanln()
}
