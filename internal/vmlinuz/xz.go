package vmlinuz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ulikunitz/xz/lzma"
)

// The .xz file format, version 1.1.0. The xz module does not know filters, and
// the kernel's build puts one for x86 code before LZMA2; so the container is
// read here: one stream of one block, as the build makes it.

const (
	xzHeaderSize = 12
	filterX86    = 0x04
	filterLZMA2  = 0x21
)

var errXZ = errors.New("damaged header")

func unxz(b []byte, limit int) ([]byte, error) {
	if len(b) < xzHeaderSize+4 {
		return nil, errXZ
	}
	// Stream flags are not looked at beyond their checksum: they name the
	// check behind the data, which the BTF's own checks make up for.
	if crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, errXZ
	}
	b = b[xzHeaderSize:]
	size := (int(b[0]) + 1) * 4
	if b[0] == 0 || size > len(b) || crc32.ChecksumIEEE(b[:size-4]) != binary.LittleEndian.Uint32(b[size-4:]) {
		return nil, errXZ
	}
	x86, dictionary, err := xzFilters(b[1 : size-4])
	if err != nil {
		return nil, err
	}
	r, err := lzma.Reader2Config{DictCap: dictionary}.NewReader2(bytes.NewReader(b[size:]))
	if err != nil {
		return nil, err
	}
	out, err := read(r, limit)
	if err != nil {
		return nil, err
	}
	if x86 {
		unfilterX86(out)
	}
	return out, nil
}

// xzFilters reads the flags and filters of a block's header.
func xzFilters(b []byte) (x86 bool, dictionary int, err error) {
	flags := b[0]
	b = b[1:]
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errXZ
			return 0
		}
		b = b[n:]
		return v
	}
	if flags&0x40 != 0 {
		number() // compressed size
	}
	if flags&0x80 != 0 {
		number() // unpacked size
	}
	for i := range int(flags&3) + 1 {
		id, size := number(), number()
		if err != nil || size > uint64(len(b)) {
			return false, 0, errXZ
		}
		properties := b[:size]
		b = b[size:]
		switch {
		case id == filterX86 && i == 0 && size == 0:
			x86 = true
		case id == filterLZMA2 && i == int(flags&3) && size == 1 && properties[0] <= 40:
			bits := properties[0]
			dictionary = maxWindow
			if d := (2 | uint64(bits&1)) << (bits/2 + 11); d < maxWindow {
				dictionary = int(d)
			}
		default:
			return false, 0, fmt.Errorf("filter %#x is not supported", id)
		}
	}
	if dictionary == 0 {
		return false, 0, errXZ
	}
	return x86, dictionary, nil
}

// unfilterX86 makes the absolute targets of x86 calls and jumps relative again,
// as lib/xz/xz_dec_bcj.c in the kernel does it.
func unfilterX86(b []byte) {
	// The four bits of opcodes seen lately say whether a byte after one may be
	// the high byte of an address.
	allowed := [8]bool{true, true, true, false, true, false, false, false}
	bitNumber := [8]uint{0, 1, 2, 2, 3, 3, 3, 3}
	high := func(c byte) bool { return c == 0 || c == 0xff }
	previous := -1
	var mask uint32
	for i := 0; i+4 < len(b); i++ {
		if b[i]&0xfe != 0xe8 {
			continue
		}
		if distance := i - previous; distance > 3 {
			mask = 0
		} else {
			mask = mask << (distance - 1) & 7
			if mask != 0 {
				c := b[i+4-int(bitNumber[mask])]
				if !allowed[mask] || high(c) {
					previous = i
					mask = mask<<1 | 1
					continue
				}
			}
		}
		previous = i
		if !high(b[i+4]) {
			mask = mask<<1 | 1
			continue
		}
		source := binary.LittleEndian.Uint32(b[i+1:])
		var target uint32
		for {
			target = source - uint32(i+5)
			if mask == 0 {
				break
			}
			shift := bitNumber[mask] * 8
			if !high(byte(target >> (24 - shift))) {
				break
			}
			source = target ^ (uint32(1)<<(32-shift) - 1)
		}
		target &= 0x01ffffff
		target |= -(target & 0x01000000)
		binary.LittleEndian.PutUint32(b[i+1:], target)
		i += 4
	}
}
