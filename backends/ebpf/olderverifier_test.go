package ebpf

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
)

// Before Linux 5.6 the verifier checks a function once for each call. These checks stay below the
// limit of instructions. Linux 5.4 counts twice as many instructions as the newest kernels.
func TestOlderVerifierWork(t *testing.T) {
	usePerf(t, true)
	for _, tt := range []struct {
		program string
		most    uint32
	}{{programsProgQuarkTextHandler, 150000}, {programsProgQuarkExitHandler, 20000}} {
		for _, environ := range []source.Environ{{}, {Names: []string{"*"}}} {
			l := olderLoader(t, &source.Options{Environ: environ})
			programs, err := l.load(tt.program)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range programs {
				t.Cleanup(func() { p.Close() })
				checkVerified(t, tt.most, p)
			}
		}
	}
}

// olderLoader returns a loader of programs that have only static functions.
func olderLoader(t *testing.T, shared *source.Options) *loader {
	t.Helper()
	kernel, err := shared.Types()
	if err != nil {
		t.Skip(err)
	}
	l, err := newLoader(&Options{Buffer: source.BufferPerf}, shared, kernel, 2, cgroupSource())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range l.maps {
			m.Close()
		}
	})
	for _, p := range l.spec.Programs {
		for i := range p.Instructions {
			ins := &p.Instructions[i]
			if f := btf.FuncMetadata(ins); f != nil {
				static := *f
				static.Linkage = btf.StaticFunc
				*ins = btf.WithFuncMetadata(*ins, &static)
			}
		}
	}
	return l
}
