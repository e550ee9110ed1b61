package audit

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrule"
)

// auditedVariable is set in a test binary that was started after audit was enabled.
const auditedVariable = "QUARK_AUDITED"

// TestMain enables audit in a guest, then runs the tests in a new process: audit ignores older
// processes.
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
	conform.Main(m, map[string]func(){"open-and-pause": openAndPause, "print-and-open": printAndOpen, "open-error": printOpenError, "print-and-wait": printAndWait})
}

func inGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// needGuest skips a test that changes audit rules, unless it runs in a guest.
func needGuest(t testing.TB) {
	t.Helper()
	if !inGuest() {
		t.Skip("needs a guest (QUARK_INITRAMFS=1): the test enables audit until the next boot")
	}
}

// open returns a source that is closed at the end of the test. It skips the test if Open fails.
func open(t testing.TB, o Options, shared source.Options) *Source {
	t.Helper()
	needGuest(t)
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
			t.Errorf("got %d rules, want %d", got, want)
		}
	})
}
