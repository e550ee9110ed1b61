package tracepoint

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// open opens a source on the running kernel, or skips.
func open(t testing.TB, shared source.Options, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to open tracepoints")
	}
	s, err := Open(shared, o)
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

func opened(t testing.TB, shared source.Options) engine.Source { return open(t, shared, Options{}) }

func TestConform(t *testing.T) { conform.Test(t, opened) }

// TestConformGroups has the ends of processes told by their threads, as before Linux 6.16.
func TestConformGroups(t *testing.T) {
	withoutGroupDead(t)
	s := opened(t, source.Options{})
	if s.(*Source).groups == nil {
		t.Fatal("the kernel tells the ends")
	}
	conform.Judge(t, s, "fork-exec-exit", "thread-ends", "end-together", "leader-first", "exit-group-thread", "exec-from-thread")
	t.Run("threads", func(t *testing.T) { conform.Threads(t, opened(t, source.Options{Threads: true})) })
}

// withoutGroupDead hides a field of the kernel's records.
func withoutGroupDead(t *testing.T) {
	all := hooks[ended].fields
	hooks[ended].fields = all[:len(all)-1]
	t.Cleanup(func() { hooks[ended].fields = all })
}

func TestKinds(t *testing.T) {
	conform.Kinds(t, opened, func(t testing.TB, src engine.Source, o source.Options) {
		s := src.(*Source)
		for _, l := range s.layouts {
			needed := map[what]bool{newTask: o.Reports(engine.EventFork | engine.EventExec), executed: o.Reports(engine.EventExec), ended: o.Reports(engine.EventExit)}[l.what]
			if !needed && (s.groups == nil || l.what == ended) {
				t.Errorf("tracepoint %s is open", hooks[l.what].name)
			}
		}
	})
}
