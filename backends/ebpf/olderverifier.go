package ebpf

import (
	"errors"
	"math"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// lowLimits are the bounds of the programs' loops for kernels that verify a function once
// for each call. The verifier checks at most a million instructions.
var lowLimits = map[string]uint32{"path_rounds": 12, "cgroup_rounds": 3, "path_attempts": 1, "path_checks": 191, "most_tries": 1}

// lowExtents replaces entries of wholeTexts for programs with lowLimits.
var lowExtents = map[engine.Field]engine.Extent{
	engine.FieldExe:    {Bytes: 3800, Names: 90},
	engine.FieldCwd:    {Bytes: 3800, Names: 90},
	engine.FieldCgroup: {Bytes: 3800, Names: 20},
}

// globalFunctions reports whether the verifier checks a function only once, as it does since Linux
// 5.6. It tests whether types of functions can be global. It is a variable for a test.
var globalFunctions = func() bool {
	types := [...]uint32{
		1<<16 | 0xeb9f, 24, 0, 24, 24, 4, // struct btf_header: 24 bytes of types, 4 of text
		0, 13 << 24, 0, // a function type: no arguments, no result
		1, 12<<24 | 1, 1, // a global function of this type
		'a' << 8, // its name
	}
	attr := struct {
		types, log unsafe.Pointer
		size       uint32
		logSize    uint32
		logLevel   uint32
		_          uint32
	}{types: unsafe.Pointer(&types), size: uint32(unsafe.Sizeof(types))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_BTF_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno == 0 {
		unix.Close(int(fd))
	}
	return !errors.Is(errno, unix.EINVAL)
}

// lowerLimits sets the programs' constants to lowLimits.
func (l *loader) lowerLimits() error {
	l.low = true
	for name, n := range lowLimits {
		if err := l.set(name, n); err != nil {
			return err
		}
	}
	return nil
}

// inlineConstants replaces reads of the programs' constants by their values. Verifiers before Linux
// 5.5 do not track these values and would follow impossible branches.
func (l *loader) inlineConstants(p *ebpf.ProgramSpec) {
	values := map[uint64]byte{}
	for _, v := range l.spec.Variables {
		if v.SectionName == constants {
			for i, b := range v.Value {
				values[uint64(v.Offset)+uint64(i)] = b
			}
		}
	}
	targets := jumpTargets(p.Instructions)
	for iter := p.Instructions.Iterate(); iter.Next(); {
		i, load := iter.Index, iter.Ins
		if i+1 == len(p.Instructions) || !load.IsLoadFromMap() || load.Reference() != constants || targets[iter.Offset+2] {
			continue
		}
		read := &p.Instructions[i+1]
		if read.OpCode.Class() != asm.LdXClass || read.OpCode.Mode() != asm.MemMode || read.Src != load.Dst || read.Symbol() != "" {
			continue
		}
		at := uint64(load.Constant)>>32 + uint64(read.Offset)
		var value uint64
		known := true
		for n := range read.OpCode.Size().Sizeof() {
			b, ok := values[at+uint64(n)]
			value |= uint64(b) << (8 * n)
			known = known && ok
		}
		if known && value <= math.MaxUint32 {
			inlined := asm.Mov.Imm32(read.Dst, int32(uint32(value)))
			inlined.Metadata = read.Metadata
			*read = inlined
		}
	}
}

// jumpTargets returns the set of instructions that others jump to.
func jumpTargets(all asm.Instructions) map[asm.RawInstructionOffset]bool {
	targets := map[asm.RawInstructionOffset]bool{}
	for iter := all.Iterate(); iter.Next(); {
		op := iter.Ins.OpCode
		if op.Class().IsJump() && op.JumpOp() != asm.Call && op.JumpOp() != asm.Exit {
			targets[asm.RawInstructionOffset(int64(iter.Offset)+1+int64(iter.Ins.Offset))] = true
		}
	}
	return targets
}
