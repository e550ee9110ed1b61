package proctext

import (
	"bytes"
	"strconv"
)

// Cut is bytes.Cut with a separator of one byte.
func Cut(b []byte, sep byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(b, sep); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// Uint32 parses a decimal number.
func Uint32(b []byte) (uint32, bool) {
	n, err := strconv.ParseUint(string(b), 10, 32)
	return uint32(n), err == nil
}

// Uint64 parses a number in base 10 or 16.
func Uint64(b []byte, base int) (uint64, bool) {
	n, err := strconv.ParseUint(string(b), base, 64)
	return n, err == nil
}

// int32Bits parses a number that the kernel prints as signed 32-bit, and returns its bits.
func int32Bits(b []byte) (uint32, bool) {
	n, err := strconv.ParseInt(string(b), 10, 32)
	return uint32(n), err == nil
}
