package procfs

import "bytes"

// cut is bytes.Cut for one byte.
func cut(b []byte, sep byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(b, sep); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}

// parseUint parses a whole word of digits in base 10 or 16 that is at most max.
func parseUint(b []byte, base, max uint64) (n uint64, ok bool) {
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

func parseU32(b []byte) (uint32, bool) {
	n, ok := parseUint(b, 10, 1<<32-1)
	return uint32(n), ok
}

func parseU64(b []byte) (uint64, bool) { return parseUint(b, 10, 1<<64-1) }

// parseI32 parses a number that the kernel prints as a signed 32-bit one and
// returns its bits.
func parseI32(b []byte) (uint32, bool) {
	if len(b) > 0 && b[0] == '-' {
		n, ok := parseUint(b[1:], 10, 1<<31)
		return -uint32(n), ok
	}
	n, ok := parseUint(b, 10, 1<<31-1)
	return uint32(n), ok
}

func parseHex64(b []byte) (uint64, bool) { return parseUint(b, 16, 1<<64-1) }
