package vmlinuz

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxSize limits an image and its unpacked size: several times a distribution's kernel.
const MaxSize = 512 << 20

// maxLayers limits the layers of an image: Image.gz of an EFI zboot image of an ELF file has three.
const maxLayers = 4

// Unpack returns the innermost image: an ELF file on x86, on arm64 the bytes as they lie in memory.
// limit bounds its size.
func Unpack(image []byte, limit int) ([]byte, error) {
	return peel(image, limit, func([]byte) bool { return false })
}

// Bootable removes the compressions that qemu does not support. It returns an x86 bzImage, an
// x86-64 vmlinux or an arm64 Image, and its GOARCH.
func Bootable(image []byte) (bootable []byte, arch string, err error) {
	if bootable, err = peel(image, MaxSize, isBzImage); err != nil {
		return nil, "", err
	}
	if arch = Arch(bootable); arch == "" {
		return nil, "", ErrNotBootable
	}
	return bootable, arch, nil
}

// Vmlinux returns the kernel in a bzImage, or nil if qemu cannot start the kernel directly: this
// needs the ELF note of a PVH entry. The bzImage's unpacker would choose a random address. A kernel
// that qemu starts directly always has the same address.
func Vmlinux(image []byte) []byte {
	if !isBzImage(image) {
		return nil
	}
	kernel, err := Unpack(image, MaxSize)
	if err != nil || !hasPVHNote(kernel) {
		return nil
	}
	return kernel
}

// hasPVHNote reports whether an ELF file has the note XEN_ELFNOTE_PHYS32_ENTRY
// (include/xen/interface/elfnote.h).
func hasPVHNote(kernel []byte) bool {
	const noteType, nameSize = 18, 4
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return false
	}
	note := binary.LittleEndian.AppendUint32(nil, noteType)
	note = append(note, "Xen\x00"...)
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > uint64(len(kernel)) {
			continue
		}
		if notes, err := io.ReadAll(p.Open()); err == nil && bytes.Contains(notes, note) {
			return true
		}
	}
	return false
}

// peel unpacks an image until it is not packed any more or done reports true.
func peel(image []byte, limit int, done func([]byte) bool) ([]byte, error) {
	for range maxLayers {
		if done(image) {
			return image, nil
		}
		payload, err := payload(image)
		if err != nil {
			return nil, err
		}
		if payload == nil {
			return image, nil
		}
		if image, err = Decompress(payload, limit); err != nil {
			return nil, fmt.Errorf("unpack kernel image: %w", err)
		}
	}
	return nil, errors.New("unpack kernel image: packed too often")
}

// payload returns the compressed part of an image, nil if there is none.
func payload(image []byte) ([]byte, error) {
	switch {
	case isELF(image), isArm64(image):
		return nil, nil
	case isZboot(image):
		return zbootPayload(image)
	case isBzImage(image):
		return bzImagePayload(image)
	case compressionOf(image) >= 0:
		return image, nil
	}
	return nil, ErrNoImage
}

// Errors for files that are not supported.
var (
	ErrNoImage     = errors.New("no kernel image: want x86 bzImage, arm64 Image, EFI zboot or ELF")
	ErrNotBootable = errors.New("unsupported architecture: want x86-64 bzImage or vmlinux, or arm64 Image")
)

func isELF(b []byte) bool { return bytes.HasPrefix(b, []byte("\x7fELF")) }

// isArm64 reports whether b is an arm64 Image (Documentation/arch/arm64/booting.rst).
func isArm64(b []byte) bool { return len(b) > 64 && string(b[56:60]) == "ARM\x64" }

// isZboot reports whether b is an EFI zboot image (include/linux/pe.h,
// drivers/firmware/efi/libstub/zboot-header.S).
func isZboot(b []byte) bool {
	return len(b) >= 16 && string(b[:2]) == "MZ" && string(b[4:8]) == "zimg"
}

func zbootPayload(b []byte) ([]byte, error) {
	return slice(b, uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:])), "EFI zboot image")
}

// Offsets in a bzImage (Documentation/arch/x86/boot.rst). The payload has offsets since protocol
// 2.08.
const (
	setupSectsAt    = 0x1f1
	magicAt         = 0x202
	versionAt       = 0x206
	payloadOffsetAt = 0x248
	payloadLengthAt = 0x24c

	flagsAt   = 0x236 // xloadflags, since protocol 2.12
	entryIs64 = 1     // XLF_KERNEL_64
)

func isBzImage(b []byte) bool {
	return len(b) > payloadLengthAt+4 && string(b[magicAt:magicAt+4]) == "HdrS"
}

// is32Bit reports whether a bzImage is a kernel for 32-bit processors, which runs no 64-bit
// process.
func is32Bit(b []byte) bool {
	return isBzImage(b) && binary.LittleEndian.Uint16(b[versionAt:]) >= 0x20c && b[flagsAt]&entryIs64 == 0
}

func bzImagePayload(b []byte) ([]byte, error) {
	if v := binary.LittleEndian.Uint16(b[versionAt:]); v < 0x208 {
		return nil, fmt.Errorf("unpack bzImage: boot protocol %#x is older than 2.08", v)
	}
	sectors := uint64(b[setupSectsAt])
	if sectors == 0 {
		sectors = 4
	}
	offset := (sectors+1)*512 + uint64(binary.LittleEndian.Uint32(b[payloadOffsetAt:]))
	return slice(b, offset, uint64(binary.LittleEndian.Uint32(b[payloadLengthAt:])), "bzImage")
}

func slice(b []byte, offset, length uint64, what string) ([]byte, error) {
	if length == 0 || offset > uint64(len(b)) || length > uint64(len(b))-offset {
		return nil, fmt.Errorf("unpack %s: payload of %d bytes at %d is not within its %d bytes: the file is truncated or damaged", what, length, offset, len(b))
	}
	return b[offset : offset+length], nil
}

// Arch returns the GOARCH of a kernel image from its first 1 KiB or more: an x86 bzImage or
// vmlinux, an arm64 Image or EFI zboot image. It is "" for other files and for 32-bit kernels. A
// gzip file counts as the arm64 Image that it usually is.
func Arch(head []byte) string {
	switch {
	case is32Bit(head):
		return ""
	case isBzImage(head):
		return "amd64"
	case isArm64(head), isZboot(head), bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "arm64"
	case isELF(head) && len(head) > 20 && head[18] == byte(elf.EM_X86_64) && head[19] == 0:
		return "amd64"
	}
	return ""
}
