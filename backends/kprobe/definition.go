package kprobe

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// expr is a fetch argument without its type: a register, and nested reads of memory. "+8(+16(%di))"
// is the value 8 bytes behind the address that is stored 16 bytes behind %di. The zero expr stands
// for a value that can't be reached.
type expr struct {
	register string
	reads    []int // offsets, the first read first
}

// registers hold the first arguments of a function.
var registers = map[string][3]string{
	"amd64": {"%di", "%si", "%dx"},
	"arm64": {"%x0", "%x1", "%x2"},
}

// argument returns argument n of the probed function, counted from 0.
func argument(n int) expr {
	return expr{register: registers[runtime.GOARCH][n]}
}

func (e expr) missing() bool { return e.register == "" }

// at returns the value that is stored off bytes behind the address e.
func (e expr) at(off int) expr {
	if e.missing() {
		return e
	}
	return expr{e.register, append(slices.Clip(e.reads), off)}
}

// element returns element n, of so many bytes, of the array that begins at e.
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

// fetchType is how the kernel reads and stores a value.
type fetchType struct {
	name string
	size int // bytes in the record; for a string, of its position
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

// fetch is one fetch argument of a probe: a value, or an array of count values for as many
// consecutive slots.
type fetch struct {
	slot  slot
	value expr
	typ   fetchType
	count int // 0 for a value that is no array
	word  int // of a chunk that is fetched word by word, counted from 1; 0 for another argument
}

// name returns the name of the slot's argument and of its field in the records.
func (s slot) name() string {
	if s == slotResult {
		return "ret" // in all tracepoints of the ends of system calls
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

// body returns the argument without its name. The type of a word is the kernel's default.
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

// fits reports whether the argument is within the kernel's limits. reads is the limit of nested
// reads.
func (f fetch) fits(reads int) bool { return f.value.steps() <= reads && len(f.body()) <= maxBody }

// size returns the largest room of the argument in a record.
func (f fetch) size() int {
	if f.typ == typeString {
		return f.typ.size + maxName
	}
	return f.typ.size * max(f.count, 1)
}

// The kernel's limits, found by trial on 5.10 to 7.3.
const (
	maxArguments  = 128  // MAX_TRACE_ARGS
	maxDefinition = 4094 // WRITE_BUFSIZE less newline and NUL
	maxArray      = 64   // MAX_ARRAY_LEN, since 4.20
	maxBody       = 63   // MAX_ARGSTR_LEN
	// maxReads is the largest number of reads that FETCH_INSN_MAX of 16 allows for. 7.3 allows
	// for minReads only, so the limit is found by trial.
	maxReads = 13
	minReads = 8
	// maxRecord is PERF_MAX_TRACE_SIZE before 5.16. The kernel drops a larger record with a
	// warning, which stops a machine that is set to panic on warnings.
	maxRecord = 2048
	// maxName is the largest room of a string: NAME_MAX and a NUL.
	maxName = 256
	// recordHeader is the room before the arguments: common fields, the probed address, and
	// some spare room for the common fields of patched kernels.
	recordHeader = 8 + 8 + 32
)

// definition is a probe as it is written to tracefs.
type definition struct {
	group, name string
	symbol      string
	args        []fetch
	place       uint64 // of the symbol, 0 to leave the search to the kernel
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
		return fmt.Errorf("%d arguments, %d are possible", len(d.args), maxArguments)
	}
	size := recordHeader
	for _, a := range d.args {
		size += a.size()
		if !a.fits(reads) {
			return fmt.Errorf("%s: %d reads in %d bytes, %d in %d are possible", a, a.value.steps(), len(a.body()), reads, maxBody)
		}
		if a.count > maxArray {
			return fmt.Errorf("%s: %d values, %d are possible", a, a.count, maxArray)
		}
	}
	if size > maxRecord {
		return fmt.Errorf("a record takes up to %d bytes, %d are possible", size, maxRecord)
	}
	if n := len(d.String()); n > maxDefinition {
		return fmt.Errorf("the definition takes %d bytes, %d are possible", n, maxDefinition)
	}
	return nil
}
