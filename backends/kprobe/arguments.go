package kprobe

import (
	"fmt"
	"strconv"
)

// Arguments are fetched as arrays of words, in chunks.
const (
	chunkSize      = maxArray * 8 // bytes
	chunks         = 8            // 4 KiB in all
	chunksPerProbe = 2            // as many as fit into a guard
)

// argvProbes fetches the start of the arguments. They are in user memory, but the kernel reads
// arrays from kernel memory. On amd64 and arm64 it distinguishes user memory by the address (since
// 5.7; before, it reads either on amd64).
func (b *builder) argvProbes() [][]fetch {
	start := b.follow(firstArgument, "task_struct.mm", "mm_struct.arg_start")
	if start.missing() {
		return nil
	}
	probes := b.chunkProbes(start)
	for i, args := range probes {
		part := b.part(args...)
		part.addArguments()
		probes[i] = part.args
	}
	return probes
}

// chunkProbes fetches the text at an address.
func (b *builder) chunkProbes(start expr) (probes [][]fetch) {
	each := chunksPerProbe
	if b.singles {
		each = 1 // a definition has no room for more words
	}
	for c := 0; c < chunks; c += each {
		part := b.part()
		for n := c; n < c+each; n++ {
			part.addChunk(n, start)
		}
		probes = append(probes, part.args)
	}
	return probes
}

// argvShift is 0. A test sets it so that arguments are read at addresses without memory.
var argvShift int

// addArguments fetches the addresses of the arguments.
func (b *builder) addArguments() {
	b.addMember(slotArgStart, typeX64, firstArgument, "task_struct.mm", "mm_struct.arg_start")
	b.addMember(slotArgEnd, typeX64, firstArgument, "task_struct.mm", "mm_struct.arg_end")
}

// If a read fails, such as of a page that is not resident, the record keeps the old content of its
// memory: words of an earlier record, perhaps of another process. So each probe that reads
// arguments has a guard: a probe on the same function that runs right before it, and fills the same
// memory with guardWord. The filter of the guard drops its record. The kernel runs the probes of a
// function without switching tasks, the last defined probe first.

// Kernels without arrays (before 4.20) have no guards. There, unreadable words are 0, like eight
// empty arguments: see values.zeroKnown.

// guardValue is the fetch argument of a guard for each word.
var guardValue = expr{register: `\0x` + strconv.FormatUint(guardWord, 16)}

// guardWord marks words that could not be read. It is not valid UTF-8. Arguments that contain it
// are cut there.
const guardWord = 0xfffefdfcfbfafff8

// guardFilter rejects all records of a guard.
var guardFilter = slot(0).name() + "==0"

// guard returns the definition of a guard for a probe whose record begins with so many words.
func guard(of *definition, words int) definition {
	d := definition{group: of.group, name: of.name + "_guard", symbol: of.symbol, place: of.place}
	for n := range words {
		d.args = append(d.args, fetch{slot: slot(n), value: guardValue, typ: typeX64})
	}
	return d
}

// guard installs the guard of the probe that was installed last. If this fails, that probe is not
// used.
func (in *installer) guard(s *set) error {
	of := s.probes[len(s.probes)-1]
	words := 0
	for _, a := range of.def.args {
		if a.slot < slotArgv {
			break
		}
		words += max(a.count, 1)
	}
	p := &probe{set: s, def: guard(&of.def, words)}
	if err := in.define(p); err != nil {
		s.drop(of)
		return fmt.Errorf("guard of %s: %w", of.def.name, err)
	}
	s.guards = append(s.guards, p)
	return nil
}
