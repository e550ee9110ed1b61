package btfhub

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

// An archive file is
//
//	"quarkBTF" 1                               magic and version, 9 bytes
//	uvarint, uvarint                           the index' packed and unpacked size
//	index                                      packed with DEFLATE
//	chunks                                     each packed with DEFLATE
//
// The index is text, a line each for
//
//	chunk PACKED UNPACKED                      sizes, in the order of the file
//	blob SIZE CRC32                            the next of the last chunk
//	kernel ARCH RELEASE DISTRO BLOB            its types' blob, counted from 0
//
// Kernels with the same types share a blob. Blobs that are alike stand in one
// chunk and so cost little; a look-up unpacks one chunk.
const magic = "quarkBTF\x01"

// Bounds on what a reader takes. btfhub-archive, with some 4000 kernels, is far
// within.
const (
	maxIndex   = 8 << 20
	maxChunk   = 16 << 20
	maxBlob    = 1 << 20
	maxKernels = 1 << 17
)

// Entry is a kernel of an archive.
type Entry struct {
	Release string // as uname -r says it
	Arch    string // as Go names it
	Distro  string // where it was found; not used to look up
	blob    int
}

type chunk struct {
	packed []byte
	size   int
}

type blob struct {
	chunk, offset, size int
	sum                 uint32
}

// Archive is an archive of kernels' types. It is not changed by reading.
type Archive struct {
	kernels []Entry
	blobs   []blob
	chunks  []chunk
}

var errArchive = errors.New("read archive of BTF: truncated or damaged")

// ReadArchive reads an archive's index. It keeps data and unpacks it as needed.
func ReadArchive(data []byte) (*Archive, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil, errors.New("read archive of BTF: this is none, or of another version")
	}
	packed, n := binary.Uvarint(rest)
	if n <= 0 {
		return nil, errArchive
	}
	rest = rest[n:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > maxIndex || packed > uint64(len(rest)-n) {
		return nil, errArchive
	}
	rest = rest[n:]
	index, err := unpack(rest[:packed], int(size))
	if err != nil {
		return nil, err
	}
	a := new(Archive)
	if err := a.parse(string(index), rest[packed:]); err != nil {
		return nil, err
	}
	return a, nil
}

// unpack unpacks what must have exactly the given size.
func unpack(packed []byte, size int) ([]byte, error) {
	// DEFLATE makes at most 1032 bytes of one.
	if size < 0 || size/1032 > len(packed) {
		return nil, errArchive
	}
	r := flate.NewReader(bytes.NewReader(packed))
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	if n, _ := r.Read(make([]byte, 1)); n != 0 {
		return nil, errArchive
	}
	return b, nil
}

func (a *Archive) parse(index string, rest []byte) error {
	free := 0 // bytes of the last chunk that no blob has taken yet
	for line := range strings.Lines(index) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && f[0] == "chunk":
			packed, err1 := number(f[1], len(rest))
			size, err2 := number(f[2], maxChunk)
			if err1 != nil || err2 != nil || free != 0 {
				return errArchive
			}
			a.chunks = append(a.chunks, chunk{rest[:packed], size})
			rest, free = rest[packed:], size
		case len(f) == 3 && f[0] == "blob":
			size, err1 := number(f[1], min(free, maxBlob))
			sum, err2 := strconv.ParseUint(f[2], 16, 32)
			if err1 != nil || err2 != nil || size == 0 {
				return errArchive
			}
			last := len(a.chunks) - 1
			a.blobs = append(a.blobs, blob{last, a.chunks[last].size - free, size, uint32(sum)})
			free -= size
		case len(f) == 5 && f[0] == "kernel":
			blob, err := number(f[4], len(a.blobs)-1)
			if err != nil || len(a.kernels) == maxKernels {
				return errArchive
			}
			a.kernels = append(a.kernels, Entry{f[2], f[1], f[3], blob})
		default:
			return errArchive
		}
	}
	if free != 0 || len(rest) != 0 {
		return errArchive
	}
	return nil
}

func number(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 0 || n > most) {
		err = strconv.ErrRange
	}
	return n, err
}

// Kernels returns the archive's kernels, in its order. The caller must not
// change them.
func (a *Archive) Kernels() []Entry { return a.kernels }

// Same tells whether two of the archive's kernels have the same types.
func (a *Archive) Same(x, y Entry) bool { return x.blob == y.blob }

// Blobs returns how many different types the kernels have.
func (a *Archive) Blobs() int { return len(a.blobs) }

// BTF returns the raw BTF of one of the archive's kernels.
func (a *Archive) BTF(e Entry) ([]byte, error) {
	if e.blob < 0 || e.blob >= len(a.blobs) {
		return nil, fmt.Errorf("the archive has no kernel %s", e.Release)
	}
	b := a.blobs[e.blob]
	all, err := unpack(a.chunks[b.chunk].packed, a.chunks[b.chunk].size)
	if err != nil {
		return nil, err
	}
	raw := all[b.offset : b.offset+b.size]
	if crc32.ChecksumIEEE(raw) != b.sum {
		return nil, errArchive
	}
	return raw, nil
}
