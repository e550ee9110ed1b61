package proctext

import "bytes"

// Cut is bytes.Cut with a separator of one byte.
func Cut(b []byte, sep byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(b, sep); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// parse parses a whole word of digits in base 10 or 16. Numbers above max are refused.
func parse(b []byte, base, max uint64) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		var d uint64
		switch {
		case '0' <= c && c <= '9':
			d = uint64(c - '0')
		case 'a' <= c && c <= 'f':
			d = uint64(c-'a') + 10
		case 'A' <= c && c <= 'F':
			d = uint64(c-'A') + 10
		default:
			return 0, false
		}
		if d >= base || n > (max-d)/base {
			return 0, false
		}
		n = n*base + d
	}
	return n, true
}

// Uint32 parses a decimal number.
func Uint32(b []byte) (uint32, bool) {
	n, ok := parse(b, 10, 1<<32-1)
	return uint32(n), ok
}

// Uint64 parses a decimal number.
func Uint64(b []byte) (uint64, bool) { return parse(b, 10, 1<<64-1) }

// int32Bits parses a number that the kernel prints as a signed one of 32 bits, and returns its
// bits.
func int32Bits(b []byte) (uint32, bool) {
	if len(b) > 0 && b[0] == '-' {
		n, ok := parse(b[1:], 10, 1<<31)
		return -uint32(n), ok
	}
	n, ok := parse(b, 10, 1<<31-1)
	return uint32(n), ok
}

// Hex64 parses a hexadecimal number.
func Hex64(b []byte) (uint64, bool) { return parse(b, 16, 1<<64-1) }
