package audit

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/barefork"
)

// auditedVariable is set for a test binary that was started after audit was enabled.
const auditedVariable = "QUARK_AUDITED"

// TestMain enables audit in a guest, and runs the tests in a process that is made after that: one
// of before, and what it does, is not audited.
func TestMain(m *testing.M) {
	if inGuest() && os.Getenv(auditedVariable) == "" {
		os.Setenv(auditedVariable, "1")
		if c, err := auditrule.Open(); err == nil {
			c.Enable(auditrule.On)
			c.Close()
		}
		again := exec.Command("/proc/self/exe", os.Args[1:]...)
		again.Stdout, again.Stderr = os.Stdout, os.Stderr
		again.Run()
		os.Exit(again.ProcessState.ExitCode())
	}
	conform.Main(m, map[string]func(){"left": left, "opens": opens, "forks": forks, "refused": refused, "waits": waits})
}

func inGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// guest skips a test of the kernel that is not in a guest.
func guest(t testing.TB) {
	t.Helper()
	if !inGuest() {
		t.Skip("it enables audit, which lasts until the next boot and is for guests only (QUARK_INITRAMFS=1)")
	}
}

// open opens a source that the test's end closes, or skips the test.
func open(t testing.TB, o Options, shared source.Options) *Source {
	t.Helper()
	guest(t)
	o.Enable = true
	s, err := Open(shared, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func opened(t testing.TB, shared source.Options) engine.Source {
	return open(t, Options{}, shared)
}

func TestConform(t *testing.T) { conform.Test(t, opened) }

func TestKinds(t *testing.T) {
	conform.Kinds(t, opened, func(t testing.TB, src engine.Source, o source.Options) {
		s := src.(*Source)
		if got, want := len(s.rules.added), len(wanted(&o, "")); got != want {
			t.Errorf("%d rules, not %d", got, want)
		}
	})
}

// A process that is older than the source changes its ids, then to the same ones, then again.
func TestOlderProcess(t *testing.T) {
	guest(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	gids, script := []int{5, 5, 6}, new(barefork.Script)
	for _, gid := range gids {
		script.WaitFor(int(r.Fd())).Call("setresgid", unix.SYS_SETRESGID, gid, gid, 0)
	}
	p, err := barefork.Start(script.WaitFor(int(r.Fd())).Exit(0), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	s := open(t, Options{}, source.Options{Kinds: engine.EventIDChange})
	var evs conform.Events
	want := 0
	for i, gid := range gids {
		time.Sleep(2 * time.Duration(s.slack)) // its stamp is of after the ids were read
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		if i > 0 && gid == gids[i-1] {
			continue
		}
		want++
		for until := time.Now().Add(20 * time.Second); len(evs.Of(p.PID, engine.KindIDChange)) < want; time.Sleep(time.Millisecond) {
			if err := s.Populate(&evs); err != nil || time.Now().After(until) {
				t.Fatalf("%d of %d changes, %v", len(evs.Of(p.PID, engine.KindIDChange)), want, err)
			}
		}
		if ids := evs.Of(p.PID, engine.KindIDChange); len(ids) != want || ids[want-1].Task.Cred.GID != uint32(gid) {
			t.Fatalf("%d changes, want %d, the last %+v", len(ids), want, ids[len(ids)-1].Task.Cred)
		}
	}
}
