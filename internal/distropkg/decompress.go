package distropkg

import (
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// maxWindow bounds the memory of a decoder: xz -9 has dictionaries of 64 MiB.
const maxWindow = 128 << 20

// decompress returns what a stream unpacks to, by its first bytes. plain is set for one that may
// not be packed.
func (p *Package) decompress(r *bufio.Reader, plain bool) (io.Reader, error) {
	head, _ := r.Peek(6) // what is shorter is of no known format
	is := func(magic string) bool { return strings.HasPrefix(string(head), magic) }
	switch {
	case is("\x1f\x8b"):
		return gzip.NewReader(r)
	case is("\xfd7zXZ\x00"):
		return xz.NewReader(r, maxWindow)
	case is("\x28\xb5\x2f\xfd"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		p.closes = append(p.closes, z.IOReadCloser())
		return z, nil
	case is("BZh"):
		return bzip2.NewReader(r), nil
	case plain:
		return r, nil
	}
	return nil, fmt.Errorf("its content starts with % x: gzip, xz, zstd or bzip2 is wanted", head)
}
