package ebpf

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/kernelversion"
)

var others = []source.Attach{source.AttachBTF, source.AttachFEntry, source.AttachTracepoint}

// openVariant opens a source whose programs are attached in another way, or skips where the kernel
// has none.
func openVariant(t testing.TB, attach source.Attach, shared source.Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	s, err := Open(shared, Options{Attach: attach})
	// By a policy of the host.
	refused := attach == source.AttachFEntry && errors.Is(err, unix.EPERM)
	if errors.Is(err, errors.ErrUnsupported) || refused {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if want := "ebpf:" + attach.String(); s.Name() != want {
		t.Errorf("its name is %s, not %s", s.Name(), want)
	}
	return s
}

// Who is refused programs on functions is told which ways need none, on one line.
func TestRefusedFunction(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("others are told to be root")
	}
	for attach, want := range map[source.Attach]bool{source.AttachFEntry: true, source.AttachBTF: false} {
		v := variants[attach]
		err := v.explain(&v.hooks[0], explain(unix.EPERM))
		if text := err.Error(); !errors.Is(err, unix.EPERM) || strings.Contains(text, "ebpf:tracepoint may work") != want || strings.Contains(text, "\n") {
			t.Errorf("%s: %s", attach, text)
		}
	}
}

func TestVariantsConform(t *testing.T) {
	for _, attach := range others {
		t.Run(attach.String(), func(t *testing.T) {
			conform.Test(t, func(t testing.TB, shared source.Options) engine.Source { return openVariant(t, attach, shared) })
		})
	}
}

func TestVariantsKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute on an emulated processor; TestKinds opens the kinds of the first variant there")
	}
	for _, attach := range others {
		t.Run(attach.String(), func(t *testing.T) {
			conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return openVariant(t, attach, shared) },
				func(t testing.TB, src engine.Source, o source.Options) {
					s, want := src.(*Source), 0
					each := 1
					if attach != source.AttachTracepoint && kernelversion.AtLeast(preemptibleSince) {
						each = 2
					}
					for _, kind := range []engine.Events{engine.EventFork, engine.EventExec, engine.EventExit} {
						if o.Reports(kind) {
							want += each
						}
					}
					if o.Reports(engine.EventExit) && !o.Reports(engine.EventExec) {
						want++ // the one for leaders
					}
					if got := len(s.links) + len(s.events); o.Kinds != 0 && got != want {
						t.Errorf("%d programs are attached, not %d", got, want)
					}
				})
		})
	}
}

// A record of a fork does not tell whose process it is.
func TestVariantsRefuse(t *testing.T) {
	openVariant(t, source.AttachTracepoint, source.Options{}).Close()
	_, err := Open(source.Options{Users: []uint32{1}}, Options{Attach: source.AttachTracepoint})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Options.Users") {
		t.Errorf("%v", err)
	}
	var wrong *engine.OptionError
	if err := Validate(Options{Attach: source.AttachTracepoint + 1}); !errors.As(err, &wrong) || wrong.Option != "Attach" {
		t.Errorf("%v", err)
	}
}

// With second programs, as where the kernel can preempt the first, each event is reported once.
func TestVariantsTwinned(t *testing.T) {
	unpreempted(t)
	for _, attach := range others[:2] {
		t.Run(attach.String(), func(t *testing.T) {
			lives := []string{"fork-exec-exit", "vfork", "exec-chain-5", "exec-from-thread", "end-together", "comm"}
			s := openVariant(t, attach, source.Options{})
			if len(s.first) != 4 {
				t.Errorf("%d first programs", len(s.first))
			}
			conform.Judge(t, s, lives...)
			closeFirst(t, s) // the others report what the first miss
			conform.Judge(t, s, lives...)
		})
	}
}
