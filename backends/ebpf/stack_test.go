package ebpf

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
)

// Handlers use the task's stack, not BPF's private stack of the CPU: there, a twin that preempts
// another one would overwrite its data.
func TestHandlersAreOnTheTaskStack(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("checks machine code of amd64 only")
	}
	open(t, Options{}) // skips if there is no eBPF
	l, err := newLoader(&Options{}, new(source.Options), new(btfhub.Kernel), 1, programsCgroupSourceCGROUP_V2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, m := range l.maps {
			m.Close()
		}
	}()
	for _, kept := range []bool{true, false} {
		for _, h := range requiredHooks {
			programs, err := l.tryLoad(kept, h.names())
			if err != nil {
				t.Fatal(err)
			}
			info, err := programs[h.handler].Info()
			if err != nil {
				t.Fatal(err)
			}
			code, ok := info.JitedInsns()
			for _, p := range programs {
				p.Close()
			}
			if !ok || len(code) == 0 {
				t.Skip("the kernel does not show machine code")
			}
			// add r9, gs:[this_cpu_off]
			private := bytes.Contains(code, []byte{0x65, 0x4c, 0x03, 0x0c, 0x25})
			switch {
			case kept && private:
				t.Errorf("%s has a private stack", h.handler)
			case !kept && !private:
				t.Logf("%s: this kernel uses no private stack even without the tail call, so the test proves nothing", h.handler)
			case !kept:
				t.Logf("%s: this kernel uses a private stack without the tail call", h.handler)
			}
		}
	}
}
