package kprobe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tracefs"
	"golang.org/x/sys/unix"
)

// open opens a source on the running kernel, or skips the test.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	return openShared(t, source.Options{}, o)
}

func openShared(t testing.TB, shared source.Options, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to install probes")
	}
	if fs, err := tracefs.Open(); err == nil {
		p, err := fs.Probes()
		fs.Close()
		if err != nil {
			t.Skip(err)
		}
		p.Close()
	}
	s, err := Open(shared, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func TestKinds(t *testing.T) {
	conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return openShared(t, shared, Options{}) },
		func(t testing.TB, src engine.Source, o source.Options) {
			for _, set := range src.(*Source).sets {
				if needed := set.kind == engine.KindExec && o.Reports(engine.EventExit); !o.Reports(set.kind.Events()) && (!needed || len(set.probes) > 1) {
					t.Errorf("got %d probes for %s, want none", len(set.probes), set.kind)
				}
			}
		})
}

func TestConform(t *testing.T) {
	conform.Test(t, func(t testing.TB, shared source.Options) engine.Source { return openShared(t, shared, Options{}) })
}

// An execve of a set-user-ID program changes ids. Only its EXEC reports the change.
func TestIDsOfExec(t *testing.T) {
	s := open(t, Options{})
	c := conform.Child("exit")
	dir := t.TempDir()
	program, err := os.ReadFile(c.Path)
	c.Path = filepath.Join(dir, "program")
	if err := errors.Join(err, os.Chmod(filepath.Dir(dir), 0o755), os.WriteFile(c.Path, program, 0o755), os.Chmod(c.Path, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 2002, Gid: 2002}}
	evs := conform.Run(t, s, c)
	if ids := evs.One(t, c.Process.Pid, engine.KindExec).Task.Cred; ids.UID != 2002 || ids.EUID != 0 {
		t.Fatalf("got ids %+v after the execve, want uid 2002, euid 0", ids)
	}
	if got := evs.Of(c.Process.Pid, engine.KindIDChange); len(got) != 2 {
		t.Errorf("got %d ID_CHANGE events, want 2: of setgid(2) and setuid(2)", len(got))
	}
}

// Arguments on a page that is not in memory are unknown. The kernel's buffer still has earlier
// arguments; they must not be reported.
func TestNotResident(t *testing.T) {
	argvShift = -1 << 30 // an address between the stack and all other memory
	defer func() { argvShift = 0 }()
	s := open(t, Options{})
	for range 5 {
		argvShift = 0
		before := open(t, Options{}) // leaves other arguments in the kernel's buffers
		conform.Run(t, before, conform.Child("exit", strings.Repeat("other", 1000)))
		before.Close()
		c := conform.Child("exit", "own")
		evs := conform.Run(t, s, c)
		if ev := evs.One(t, c.Process.Pid, engine.KindExec); ev.Bytes(engine.FieldArgs) != nil {
			t.Errorf("got arguments %q from a page that is not in memory", ev.Bytes(engine.FieldArgs))
		}
	}
}

// Kernels before 4.20 accept no arrays. The fetches for these kernels report the same events. The
// test reads resident memory only, because this kernel does not set unreadable words to 0.
func TestOlderForms(t *testing.T) {
	open(t, Options{}).Close()
	refused = func(f fetch) bool { return f.count > 0 }
	defer func() { refused = nil }()
	s := open(t, Options{})
	conform.Score(t, s, "fork-exec-exit", "setres-ids", "comm", "args-sizes", "args-2000", "args-none", "cwd-30", "thread-ends")
	for _, set := range s.sets {
		if len(set.guards) > 0 {
			t.Errorf("%s has %d guards, want none", set.symbol, len(set.guards))
		}
		for _, p := range set.probes {
			if i := slices.IndexFunc(p.def.args, refused); i >= 0 {
				t.Errorf("probe %s has the fetch %s, want none of this form", p.def.name, p.def.args[i])
			}
		}
	}
}

// The embedded types for kernels without BTF report the same events.
func TestEmbeddedTypes(t *testing.T) {
	k, err := btfhub.Open(btfhub.Options{EmbeddedOnly: true})
	if err != nil {
		t.Skip(err)
	}
	s := openShared(t, source.Options{KernelTypes: k.Spec}, Options{})
	conform.Score(t, s, "fork-exec-exit")
	if err := selftest.Run(s.Capabilities(), s); err != nil {
		t.Error(err)
	}
}
