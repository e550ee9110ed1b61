package ebpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// castNumber is the placeholder in the programs for bpf_rdonly_cast and for a type, see
// programs/read.h.
const castNumber = 51799

// hideCast is true only in a test.
var hideCast bool

// findCast lets the programs read the kernel's memory by casts, without a call for each value, if
// the kernel supports this.
func (l *loader) findCast(kernel *btfhub.Kernel) {
	if !hideCast && l.perf == "" && kernel.Cast != 0 && kernel.Bytes != 0 && canCast(kernel) {
		l.cast, l.bytes = kernel.Cast, kernel.Bytes
	}
}

// setReads makes a program read the kernel's memory by cast, or by calls if cast is 0.
func setReads(p *ebpf.ProgramSpec, cast, bytes btf.TypeID) {
	number := asm.Mov.Imm(asm.R0, castNumber).OpCode
	for i := range p.Instructions {
		in := &p.Instructions[i]
		switch {
		case in.Constant != castNumber:
		case in.OpCode == number && cast == 0:
			in.Constant = 0
		case in.OpCode == number:
			in.Constant = int64(bytes)
		case in.IsBuiltinCall() && cast != 0:
			in.Src, in.Constant = asm.PseudoKfuncCall, int64(cast)
		}
	}
}

// canCast reports whether the kernel loads a program that reads its memory by casts. The kernel
// refuses this if it interprets programs, or if its JIT does not support calls of kernel functions.
func canCast(kernel *btfhub.Kernel) bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, 0),
			asm.Mov.Imm(asm.R2, int32(kernel.Bytes)),
			{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(kernel.Cast)},
			asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if err != nil {
		return false
	}
	p.Close()
	return true
}
