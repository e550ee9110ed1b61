package btfhub

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// An archive file is compressed with gzip. It starts with lines of text:
//
//	quarkBTF 2                         always first
//	blob SIZE                          the types of a kernel
//	kernel ARCH RELEASE DISTRO BLOB    the number of the kernel's blob, from 0
//	end
//
// The blobs follow in the order of their lines. Kernels with the same types share a blob.
const (
	firstLine = "quarkBTF 2"
	lastLine  = "\nend\n"
)

// gzipMagic is the start of a file that is compressed with gzip.
const gzipMagic = "\x1f\x8b"

// Limits for untrusted files. btfhub-archive, with its 4000 kernels, is far below them.
const (
	maxArchive = 64 << 20 // uncompressed size
	maxBlob    = 1 << 20
	maxKernels = 1 << 17
)

// Entry is a kernel of an archive.
type Entry struct {
	Release string // uname -r
	Arch    string // GOARCH
	Distro  string // the distribution; look-ups ignore it
	blob    int
}

// Archive holds the types of many kernels. It is read-only.
type Archive struct {
	kernels []Entry
	blobs   []string
}

// ReadArchive reads an archive file.
func ReadArchive(data []byte) (*Archive, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, errNoArchive
	}
	all, err := io.ReadAll(io.LimitReader(z, maxArchive+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	index, blobs, ok := strings.Cut(string(all), lastLine)
	lines := strings.Split(index, "\n")
	if lines[0] != firstLine {
		return nil, errNoArchive
	}
	if !ok || len(all) > maxArchive {
		return nil, errArchive
	}
	a := new(Archive)
	if err := a.parse(lines[1:], blobs); err != nil {
		return nil, err
	}
	return a, nil
}

var (
	errNoArchive = errors.New("read archive of BTF: it is not an archive, or has another version")
	errArchive   = errors.New("read archive of BTF: truncated or damaged")
)

func (a *Archive) parse(index []string, blobs string) error {
	for _, line := range index {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "blob":
			size, err := number(f[1], min(len(blobs), maxBlob))
			if err != nil || size == 0 {
				return errArchive
			}
			a.blobs = append(a.blobs, blobs[:size])
			blobs = blobs[size:]
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
	if len(blobs) != 0 {
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

// Blobs returns the number of different blobs.
func (a *Archive) Blobs() int { return len(a.blobs) }

// BTF returns the raw BTF of a kernel of the archive.
func (a *Archive) BTF(e Entry) []byte { return []byte(a.blobs[e.blob]) }

// Types returns the types of a kernel of the archive.
func (a *Archive) Types(e Entry) (*btf.Spec, error) {
	spec, err := loadRaw(a.BTF(e))
	if err != nil {
		return nil, fmt.Errorf("read types of %s in the archive: %w", e.Release, err)
	}
	return spec, nil
}

// Lookup returns the kernel with this release and architecture. If there is none, the error is
// [errors.ErrUnsupported].
func (a *Archive) Lookup(release, arch string) (Entry, error) {
	for _, e := range a.kernels {
		if e.Release == release && e.Arch == arch {
			return e, nil
		}
	}
	return Entry{}, notFoundError(fmt.Sprintf("the archive has no types for %s on %s", release, arch))
}

// notFoundError is the error of a look-up that finds no kernel.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

// Is reports whether target is [errors.ErrUnsupported].
func (e notFoundError) Is(target error) bool { return target == errors.ErrUnsupported }
