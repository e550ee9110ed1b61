package vmlinuz

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/therootcompany/xz"
)

// compression is a format of payloads. For all but gzip the kernel's build appends the unpacked
// size in 4 bytes, so bytes after the stream are ignored.
type compression struct {
	name   string
	magic  string
	unpack func(b []byte, limit int) ([]byte, error)
}

var compressions = []compression{
	{"gzip", "\x1f\x8b", gunzip},
	{"xz", "\xfd7zXZ\x00", unxz},
	{"zstd", "\x28\xb5\x2f\xfd", unzstd},
	{"lz4", "\x02\x21\x4c\x18", unlz4},
}

// compressionOf returns the index of the compression of b, -1 for none.
func compressionOf(b []byte) int {
	return slices.IndexFunc(compressions, func(c compression) bool { return bytes.HasPrefix(b, []byte(c.magic)) })
}

// Decompress unpacks data in one of the formats of kernel images. It is an error if the result has
// more bytes than the limit.
func Decompress(b []byte, limit int) ([]byte, error) {
	i := compressionOf(b)
	if i < 0 {
		return nil, fmt.Errorf("payload starts with % x: want gzip, xz, zstd or lz4", b[:min(len(b), 6)])
	}
	out, err := compressions[i].unpack(b, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", compressions[i].name, err)
	}
	return out, nil
}

var errTooLarge = errors.New("unpacks to more than a kernel has")

// read reads r to its end. If it has more bytes than limit it returns errTooLarge.
func read(r io.Reader, limit int) ([]byte, error) {
	var out bytes.Buffer // grows faster than io.ReadAll's slice
	n, err := out.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if n > int64(limit) {
		return nil, errTooLarge
	}
	return out.Bytes(), err
}

func gunzip(b []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	return read(r, limit)
}

func unxz(b []byte, limit int) ([]byte, error) {
	// The decoder would read zeros at the start of the appended size as stream padding.
	if n := len(b) - 4; n > 0 && bytes.HasSuffix(b[:n], []byte("YZ")) {
		b = b[:n]
	}
	r, err := xz.NewReader(bytes.NewReader(b), maxWindow)
	if err != nil {
		return nil, err
	}
	return read(r, limit)
}

// maxWindow bounds dictionaries. The kernel's build asks for 128 MiB at most.
const maxWindow = 128 << 20

func unzstd(b []byte, limit int) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out, err := read(r, limit)
	if len(out) > 0 && errors.Is(err, zstd.ErrMagicMismatch) && isImage(out) {
		err = nil // the appended size is not a second frame
	}
	return out, err
}

// isImage reports whether b is an image without compression, which most payloads unpack to.
func isImage(b []byte) bool { return isELF(b) || isArm64(b) }

// unlz4 unpacks lz4's legacy format, which the kernel's build uses.
func unlz4(b []byte, limit int) ([]byte, error) {
	return read(lz4.NewReader(bytes.NewReader(b)), limit)
}
