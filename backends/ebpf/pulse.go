package ebpf

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/pulse"
)

// openPulse attaches a program that counts the hits of a kprobe, to check that kprobes work.
func (s *Source) openPulse(plain bool) error {
	spec := ebpf.MapSpec{Name: "quark_pulse", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
	if !plain {
		spec.Flags = unix.BPF_F_MMAPABLE
	}
	m, err := ebpf.NewMap(&spec)
	if err != nil {
		return fmt.Errorf("make map %s: %w", spec.Name, err)
	}
	s.pulseMap = m
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: spec.Name, Type: ebpf.Kprobe, License: "Dual BSD/GPL", Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -8, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("load program %s: %w", spec.Name, err)
	}
	s.programs = append(s.programs, p)
	for _, function := range pulse.Functions {
		lnk, e := link.Kprobe(function, p, nil)
		if e == nil {
			s.links, err = append(s.links, lnk), nil
			break
		}
		err = cmp.Or(err, fmt.Errorf("probe %s: %w", function, e))
	}
	if err != nil {
		return err
	}
	count := make([]byte, 8)
	hits := func() (n uint64, counter int) {
		if err := m.Lookup(uint32(0), count); err != nil {
			return 0, -1
		}
		return binary.NativeEndian.Uint64(count), 0
	}
	if !plain { // readable without privileges
		memory, err := m.Memory()
		if err != nil {
			return err
		}
		hits = func() (uint64, int) {
			memory.ReadAt(count, 0)
			return binary.NativeEndian.Uint64(count), 0
		}
	}
	s.pulse, err = pulse.Open(s.shared.HoldTime, hits)
	return err
}
