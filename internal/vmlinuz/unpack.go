package vmlinuz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// errNoImage says that bytes are none of the known kinds of image.
var errNoImage = errors.New("no kernel image: x86 bzImage, arm64 Image, EFI zboot or ELF is wanted")

// maxLayers is how often an image may be packed: Image.gz of an EFI zboot image
// of an ELF file would be three.
const maxLayers = 4

// Unpack returns the innermost image: an ELF file on x86, on arm64 the bytes as
// they lie in memory. limit bounds its size.
func Unpack(image []byte, limit int) ([]byte, error) {
	for range maxLayers {
		payload, err := payload(image)
		if err != nil {
			return nil, err
		}
		if payload == nil {
			return image, nil
		}
		if image, err = decompress(payload, limit); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("unpack kernel image: packed too often")
}

// payload returns the compressed part of an image, nil if it is none.
func payload(image []byte) ([]byte, error) {
	switch {
	case isELF(image), isArm64(image):
		return nil, nil
	case isZboot(image):
		return zbootPayload(image)
	case isBzImage(image):
		return bzImagePayload(image)
	case compressionOf(image) != nil:
		return image, nil
	}
	return nil, errNoImage
}

func isELF(b []byte) bool { return bytes.HasPrefix(b, []byte("\x7fELF")) }

// isArm64 tells arm64's Image by its magic; Documentation/arch/arm64/booting.rst.
func isArm64(b []byte) bool { return len(b) > 64 && string(b[56:60]) == "ARM\x64" }

// EFI zboot: include/linux/pe.h and drivers/firmware/efi/libstub/zboot-header.S
// in the kernel.
func isZboot(b []byte) bool {
	return len(b) > 64 && string(b[:2]) == "MZ" && string(b[4:8]) == "zimg"
}

func zbootPayload(b []byte) ([]byte, error) {
	return slice(b, uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:])), "EFI zboot image")
}

// bzImage: Documentation/arch/x86/boot.rst. The payload is told of since
// protocol 2.08.
const (
	setupSectsAt    = 0x1f1
	magicAt         = 0x202
	versionAt       = 0x206
	payloadOffsetAt = 0x248
	payloadLengthAt = 0x24c
)

func isBzImage(b []byte) bool {
	return len(b) > payloadLengthAt+4 && string(b[magicAt:magicAt+4]) == "HdrS"
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

// Arch returns the GOARCH of a kernel image by its first bytes, 1 KiB or more of them, or "" for what is none: an x86
// bzImage or vmlinux, an arm64 Image or EFI zboot image. A gzip file is taken for the arm64 Image that it usually is.
func Arch(head []byte) string {
	switch {
	case isBzImage(head):
		return "amd64"
	case isArm64(head), isZboot(head), bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "arm64"
	case isELF(head) && len(head) > 20 && head[18] == 62 && head[19] == 0:
		return "amd64"
	}
	return ""
}
