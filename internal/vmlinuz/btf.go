package vmlinuz

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrNoBTF means that a kernel was built without CONFIG_DEBUG_INFO_BTF.
var ErrNoBTF = errors.New("kernel image has no BTF: it was built without CONFIG_DEBUG_INFO_BTF")

// BTF returns a copy of the raw BTF in a kernel image.
func BTF(image []byte) ([]byte, error) {
	kernel, err := Unpack(image, MaxSize)
	if err != nil {
		return nil, err
	}
	raw, err := section(kernel)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(raw), nil
}

// section returns the BTF in an unpacked kernel.
func section(kernel []byte) ([]byte, error) {
	if !isELF(kernel) {
		return scan(kernel)
	}
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return nil, fmt.Errorf("read kernel image: %w", err)
	}
	defer f.Close()
	s := f.Section(".BTF")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, ErrNoBTF
	}
	raw, err := slice(kernel, s.Offset, s.FileSize, "section .BTF")
	if err != nil {
		return nil, err
	}
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, errors.New("read kernel image: section .BTF is compressed")
	}
	return raw, nil
}

// header is the start of struct btf_header (include/uapi/linux/btf.h): magic, version, flags and
// the header's size, little endian.
var header = []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0}

const headerSize = 24

// scan returns the largest BTF in a kernel without sections. A program in the kernel's image may
// have some BTF, too.
func scan(kernel []byte) ([]byte, error) {
	var best []byte
	for rest := kernel; ; {
		i := bytes.Index(rest, header)
		if i < 0 || len(rest)-i < headerSize {
			break
		}
		if b := plausible(rest[i:]); len(b) > len(best) {
			best = b
		}
		rest = rest[i+len(header):]
	}
	if best == nil {
		return nil, ErrNoBTF
	}
	return best, nil
}

// plausible returns the BTF at the start of b, nil if its header is invalid.
func plausible(b []byte) []byte {
	u32 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	typeOff, typeLen, strOff, strLen := u32(8), u32(12), u32(16), u32(20)
	end := headerSize + strOff + strLen
	if typeOff != 0 || typeLen == 0 || strOff < typeLen || strLen == 0 || end > uint64(len(b)) {
		return nil
	}
	if strings := b[headerSize+strOff : end]; strings[0] != 0 || strings[strLen-1] != 0 {
		return nil
	}
	return b[:end]
}
