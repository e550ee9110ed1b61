package ebpf

import (
	"os"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// The programs report the same values if they read kernel memory through helper calls.
func TestReadsByCalls(t *testing.T) {
	hideCasts(t)
	conform.Score(t, open(t, Options{}), "fork-exec-exit", "vfork", "exec-chain-5", "exec-from-thread", "end-together")
}

func hideCasts(t testing.TB) {
	hideCast = true
	t.Cleanup(func() { hideCast = false })
}

// From Linux 6.2 on, if the kernel has BTF, programs read its memory directly. The loader replaces
// all placeholder numbers.
func TestReadsDirectly(t *testing.T) {
	open(t, Options{}) // skips if there is no eBPF
	var shared source.Options
	kernel, err := shared.Types()
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(btfhub.KernelBTF)
	want := err == nil && kernel.Origin == btfhub.KernelBTF && kernelversion.AtLeast("6.2")
	for _, hidden := range []bool{false, true} {
		hideCast = hidden
		l, err := newLoader(&Options{}, &shared, kernel, 1, programsCgroupSourceCGROUP_V2)
		if err != nil {
			t.Fatal(err)
		}
		hideCast = false
		casts, numbers := 0, 0
		handler := l.spec.Programs[programsProgQuarkTextHandler].Copy()
		setReads(handler, l.cast, l.bytes)
		for _, in := range handler.Instructions {
			switch {
			case in.Src == asm.PseudoKfuncCall && in.OpCode.JumpOp() == asm.Call:
				casts++
			case in.Constant == castNumber && !in.IsBuiltinCall():
				numbers++
			}
		}
		t.Logf("%d casts in the handler of forks and execs", casts)
		if casts > 0 != (want && !hidden) || numbers > 0 {
			t.Errorf("hidden=%v: got %d casts and %d placeholder numbers", hidden, casts, numbers)
		}
	}
}

// A kernel may reject the programs with casts, but accept the small program that canCast loads.
// Then the programs read through helper calls. The test casts to a structure that is too small for
// most reads.
func TestRefusedCasts(t *testing.T) {
	open(t, Options{}) // skips if there is no eBPF
	var shared source.Options
	kernel, err := shared.Types()
	if err != nil {
		t.Fatal(err)
	}
	if kernel.Cast == 0 {
		t.Skip("the kernel has no bpf_rdonly_cast")
	}
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var head *btf.Struct
	if err := types.TypeByName("hlist_head", &head); err != nil {
		t.Fatal(err)
	}
	small := *kernel
	if small.Bytes, err = types.TypeID(head); err != nil {
		t.Fatal(err)
	}
	if !canCast(&small) {
		t.Fatal("canCast returns false for the small structure")
	}
	s, err := openWith(&Options{}, &shared, &small)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	conform.Score(t, s, "fork-exec-exit")
}
