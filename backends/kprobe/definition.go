package kprobe

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// expr is a fetch argument without its type: a register, and nested reads of memory. "+8(+16(%di))"
// reads the address at %di + 16, then the value at that address + 8. The zero expr means that a
// value cannot be reached.
type expr struct {
	register string
	reads    []int // offsets, the first read first
}

// registers lists the registers of a function's first arguments by architecture.
var registers = map[string][4]string{
	"amd64": {"%di", "%si", "%dx", "%cx"},
	"arm64": {"%x0", "%x1", "%x2", "%x3"},
}

// argument returns argument n of the probed function, counted from 0.
func argument(n int) expr {
	return expr{register: registers[runtime.GOARCH][n]}
}

func (e expr) missing() bool { return e.register == "" }

// at returns the value at offset off from the address e.
func (e expr) at(off int) expr {
	if e.missing() {
		return e
	}
	return expr{e.register, append(slices.Clip(e.reads), off)}
}

// element returns element n of the array at e, whose elements have size bytes.
func (e expr) element(n, size int) expr {
	reads := slices.Clone(e.reads)
	reads[len(reads)-1] += n * size
	return expr{e.register, reads}
}

// steps returns the number of reads.
func (e expr) steps() int { return len(e.reads) }

func (e expr) String() string {
	var b []byte
	for _, off := range slices.Backward(e.reads) {
		if off >= 0 {
			b = append(b, '+')
		}
		b = strconv.AppendInt(b, int64(off), 10)
		b = append(b, '(')
	}
	b = append(b, e.register...)
	for range e.reads {
		b = append(b, ')')
	}
	return string(b)
}

// fetchType describes how the kernel reads and stores a value.
type fetchType struct {
	name string
	size int // in the record; for a string, of its position
}

var (
	typeU8     = fetchType{"u8", 1}
	typeU32    = fetchType{"u32", 4}
	typeS32    = fetchType{"s32", 4}
	typeX64    = fetchType{"x64", 8}
	typeString = fetchType{"string", 4}
	// typeExiting is the flag PF_EXITING of task_struct.flags (linux/sched.h).
	typeExiting = fetchType{"b1@2/32", 4}
)

// fetch is one fetch argument of a probe: a value for a slot, or an array of count values for
// consecutive slots.
type fetch struct {
	slot  slot
	value expr
	typ   fetchType
	count int // 0 for a single value
	word  int // number of the word, from 1, of a chunk that is fetched word by word; else 0
}

// name returns the name of the slot's argument and of its field in the records.
func (s slot) name() string {
	if s == slotResult {
		return "ret" // the name in all tracepoints of system call exits
	}
	return "f" + strconv.Itoa(int(s))
}

// name returns the name of the argument and of its field in the records.
func (f fetch) name() string {
	if f.word == 0 {
		return f.slot.name()
	}
	return f.slot.name() + "w" + strconv.Itoa(f.word)
}

func (f fetch) String() string { return f.name() + "=" + f.body() }

// body returns the argument without its name. A word has the kernel's default type, which is left
// out.
func (f fetch) body() string {
	s := f.value.String()
	if f.typ != typeX64 || f.count > 0 {
		s += ":" + f.typ.name
	}
	if f.count > 0 {
		s += "[" + strconv.Itoa(f.count) + "]"
	}
	return s
}

// fits reports whether the argument is within the kernel's limits. reads is the limit for nested
// reads.
func (f fetch) fits(reads int) bool { return f.value.steps() <= reads && len(f.body()) <= maxBody }

// size returns the largest size of the argument in a record.
func (f fetch) size() int {
	if f.typ == typeString {
		return f.typ.size + maxName
	}
	return f.typ.size * max(f.count, 1)
}

// The kernel's limits, found by trial on 5.10 to 7.3.
const (
	maxArguments  = 128  // MAX_TRACE_ARGS
	maxDefinition = 4094 // WRITE_BUFSIZE without newline and NUL
	maxArray      = 64   // MAX_ARRAY_LEN, since 4.20
	maxBody       = 63   // MAX_ARGSTR_LEN
	// maxReads is the largest number of reads that FETCH_INSN_MAX of 16 allows. 7.3 allows only
	// minReads, so findReads determines the limit by trial.
	maxReads = 13
	minReads = 8
	// maxRecord is PERF_MAX_TRACE_SIZE before 5.16. The kernel drops a larger record with a
	// warning, which stops machines that panic on warnings.
	maxRecord = 2048
	// maxName is the largest size of a string: NAME_MAX and a NUL.
	maxName = 256
	// recordHeader is the size of the part before the arguments: common fields, the probed
	// address, and space for additional common fields of patched kernels.
	recordHeader = 8 + 8 + 32
)

// definition is a probe that is written to tracefs.
type definition struct {
	group, name string
	symbol      string
	args        []fetch
	place       uint64 // address of the symbol; 0 if the kernel searches for it
}

func (d *definition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "p:%s/%s ", d.group, d.name)
	if d.place != 0 {
		fmt.Fprintf(&b, "%#x", d.place)
	} else {
		b.WriteString(d.symbol)
	}
	for _, a := range d.args {
		b.WriteByte(' ')
		b.WriteString(a.String())
	}
	return b.String()
}

// removal returns the line that removes the probe.
func (d *definition) removal() string { return "-:" + d.group + "/" + d.name }

// check returns an error if the definition exceeds a limit of the kernel.
func (d *definition) check(reads int) error {
	if len(d.args) > maxArguments {
		return fmt.Errorf("%d arguments exceed the limit of %d", len(d.args), maxArguments)
	}
	size := recordHeader
	for _, a := range d.args {
		size += a.size()
		if !a.fits(reads) {
			return fmt.Errorf("%s: %d reads in %d bytes exceed the limit of %d in %d", a, a.value.steps(), len(a.body()), reads, maxBody)
		}
		if a.count > maxArray {
			return fmt.Errorf("%s: %d values exceed the limit of %d", a, a.count, maxArray)
		}
	}
	if size > maxRecord {
		return fmt.Errorf("a record of up to %d bytes exceeds the limit of %d", size, maxRecord)
	}
	if n := len(d.String()); n > maxDefinition {
		return fmt.Errorf("a definition of %d bytes exceeds the limit of %d", n, maxDefinition)
	}
	return nil
}
