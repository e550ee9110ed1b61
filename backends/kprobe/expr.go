package kprobe

import (
	"runtime"
	"slices"
	"strconv"
)

// expr is a fetch argument without its type: a register, and nested reads of memory. "+8(+16(%di))"
// is the value 8 bytes behind the address that is stored 16 bytes behind %di.
type expr struct {
	register string
	reads    []int // offsets, the first read first
}

// registers hold the first arguments of a function.
var registers = map[string][]string{
	"amd64": {"%di", "%si", "%dx", "%cx"},
	"arm64": {"%x0", "%x1", "%x2", "%x3"},
}

// argument returns argument n of the probed function, counted from 0.
func argument(n int) expr {
	return expr{register: registers[runtime.GOARCH][n]}
}

// at returns the value that is stored off bytes behind the address e.
func (e expr) at(off int) expr {
	return expr{e.register, append(slices.Clip(e.reads), off)}
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
