//go:build amd64 || arm64

package backends

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/retry"
)

// If a setting disables kprobes before Open, Open fails or eBPF uses other hooks. If the setting
// changes later, the source reports gaps.
func TestSilentProbes(t *testing.T) {
	if !scenario.InGuest() {
		t.Skip("needs a guest: the test disables the probes of all programs")
	}
	unix.Mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "")
	for _, file := range []string{"/proc/sys/kernel/ftrace_enabled", "/sys/kernel/debug/kprobes/enabled"} {
		t.Run(file[strings.LastIndex(file, "/kernel")+1:], func(t *testing.T) {
			set := func(state string) {
				if err := os.WriteFile(file, []byte(state), 0); errors.Is(err, unix.EOPNOTSUPP) {
					t.Skip("Linux 7 does not let ftrace be disabled: ", err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() { set("1") })
			set("0")
			if s, _, err := Open(Options{Allowed: KProbe}); err == nil || !strings.Contains(err.Error(), "_enabled is 0") && !strings.Contains(err.Error(), "kprobes/enabled is 0") {
				t.Errorf("kprobe: got source %v, error %v", s, err)
			}
			s, _, err := Open(Options{Allowed: EBPF})
			if err != nil {
				t.Fatal(err)
			}
			if via := s.Capabilities().Kinds[engine.KindIDChange].Via; !strings.Contains(via, "sys_exit_{setuid") || strings.Contains(via, "kprobe") {
				t.Errorf("got ID_CHANGE via %s, want exits of syscalls", via)
			}
			s.Close()
			set("1")
			for _, b := range []Set{EBPF, KProbe} {
				testSilence(t, b, set)
			}
		})
	}
}

func testSilence(t *testing.T, b Set, set func(string)) {
	s, _, err := Open(Options{Allowed: b})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if w, ok := s.(engine.Watcher); !ok || w.Interval() != time.Second {
		t.Errorf("%s is not a Watcher, with notes %q", b, s.Capabilities().Notes)
	}
	all := 0
	// gaps adds the new gaps to all, and returns how many of them overlap a time.
	gaps := func(from, to uint64) (n int) {
		t.Helper()
		var evs conform.Events
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs {
			if ev.Kind == engine.KindGap && ev.Gap.Cause == engine.LossUnseen && ev.Gap.From <= from && to <= ev.Gap.To {
				n++
			}
		}
		all += n
		return n
	}
	now := clock.Monotonic()
	if st, err := s.Stats(); gaps(now, now) != 0 || err != nil || st.Bound {
		t.Errorf("%s: got a gap before the silence, error %v", b, err)
	}
	for range 2 {
		from := clock.Monotonic()
		set("0")
		to := clock.Monotonic()
		for range retry.For(2 * time.Second) {
			if n := gaps(from, to); n != 0 {
				t.Errorf("%s: got %d gaps before the end of the silence", b, n)
			}
		}
		set("1")
		for range retry.For(5 * time.Second) {
			if n := gaps(from, to); n == 1 {
				break
			} else if n > 1 {
				t.Errorf("%s: got %d gaps for one silence, want 1", b, n)
			}
		}
		if now := clock.Monotonic(); all == 0 || gaps(now, now) != 0 {
			t.Errorf("%s: got no gap for the silence, or a gap after it", b)
		}
		all = 0
	}
	if st, err := s.Stats(); err != nil || !st.Bound {
		t.Errorf("%s: got stats %+v, error %v, want Bound", b, st, err)
	}
}
