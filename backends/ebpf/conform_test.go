package ebpf_test

import (
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

func open(t testing.TB, o source.Options) engine.Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	s, err := ebpf.Open(o, ebpf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConform(t *testing.T) {
	conform.Test(t, func(t testing.TB) engine.Source { return open(t, source.Options{}) })
}

func TestKernelTypes(t *testing.T) {
	types, err := btf.LoadSpec(btfhub.KernelBTF)
	if err != nil {
		t.Skip(err)
	}
	conform.Judge(t, open(t, source.Options{KernelTypes: types}), "fork-exec-exit")
}
