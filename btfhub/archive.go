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
//	"quarkBTF" 1           magic and version, 9 bytes
//	uvarint, uvarint       packed and unpacked size of the index
//	index                  packed with DEFLATE
//	chunks                 each packed with DEFLATE
//
// The index is text, a line each for
//
//	chunk PACKED UNPACKED              sizes, in the order of the file
//	blob SIZE CRC32                    the types of a kernel, in the chunk before
//	kernel ARCH RELEASE DISTRO BLOB    the number of its blob, from 0
//
// Kernels with the same types share a blob. Similar blobs are in one chunk, where they pack well. A
// look-up unpacks one chunk.
const magic = "quarkBTF\x01"

// Limits for a reader of untrusted files, far above btfhub-archive with its 4000 kernels.
const (
	maxIndex   = 8 << 20
	maxChunk   = 16 << 20
	maxBlob    = 1 << 20
	maxKernels = 1 << 17
)

// Entry is a kernel of an archive.
type Entry struct {
	Release string // uname -r
	Arch    string // GOARCH
	Distro  string // the distribution; look-ups do not use it
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

// Archive is an archive of kernels' types. Its methods do not change it.
type Archive struct {
	kernels []Entry
	blobs   []blob
	chunks  []chunk
}

var errArchive = errors.New("read archive of BTF: truncated or damaged")

// ReadArchive reads the index of an archive. The Archive refers to data and unpacks parts as
// needed.
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

// unpack unpacks DEFLATE data. It is an error if the result does not have exactly this size.
func unpack(packed []byte, size int) ([]byte, error) {
	// DEFLATE packs at most 1032 bytes into one.
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
	free := 0 // bytes of the last chunk after its last blob
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

// Kernels returns the kernels in the order of the file. The caller must not change them.
func (a *Archive) Kernels() []Entry { return a.kernels }

// Same reports whether two kernels of the archive have the same types.
func (a *Archive) Same(x, y Entry) bool { return x.blob == y.blob }

// Blobs returns the number of different blobs.
func (a *Archive) Blobs() int { return len(a.blobs) }

// BTF returns the raw BTF of a kernel of the archive.
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
