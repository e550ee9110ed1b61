package btfhub

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Builder makes an archive. The zero value is an empty archive. The order of the kernels does not
// change the result.
type Builder struct {
	kernels []built
}

type built struct {
	Entry
	raw []byte
}

// Add adds a kernel. If the archive has a kernel with this release and architecture but other
// types, Add returns an error.
func (b *Builder) Add(e Entry, raw []byte) error {
	for _, word := range []string{e.Release, e.Arch, e.Distro} {
		if len(strings.Fields(word)) != 1 || strings.Fields(word)[0] != word {
			return fmt.Errorf("add kernel: release %q, architecture %q and distribution %q must be one word each", e.Release, e.Arch, e.Distro)
		}
	}
	if len(raw) == 0 || len(raw) > maxBlob {
		return fmt.Errorf("add kernel %s: %d bytes of BTF, want 1 to %d: reduce them first", e.Release, len(raw), maxBlob)
	}
	for _, k := range b.kernels {
		if k.Release == e.Release && k.Arch == e.Arch {
			if bytes.Equal(k.raw, raw) {
				return nil
			}
			return fmt.Errorf("add kernel %s (%s): the archive has it already, from %s, with other types", e.Release, e.Arch, k.Distro)
		}
	}
	if len(b.kernels) == maxKernels {
		return errors.New("add kernel: too many")
	}
	b.kernels = append(b.kernels, built{e, raw})
	return nil
}

// AddArchive adds all kernels of an archive.
func (b *Builder) AddArchive(a *Archive) error {
	for _, e := range a.kernels {
		if err := b.Add(e, a.BTF(e)); err != nil {
			return err
		}
	}
	return nil
}

// Marshal returns the archive file.
func (b *Builder) Marshal() ([]byte, error) {
	kernels := slices.Clone(b.kernels)
	slices.SortFunc(kernels, compareBuilt)
	blobs, numbers := distinct(kernels)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	fmt.Fprint(z, firstLine)
	for _, raw := range blobs {
		fmt.Fprintf(z, "\nblob %d", len(raw))
	}
	for i, k := range kernels {
		fmt.Fprintf(z, "\nkernel %s %s %s %d", k.Arch, k.Release, k.Distro, numbers[i])
	}
	fmt.Fprint(z, lastLine)
	for _, raw := range blobs {
		z.Write(raw)
	}
	// Close returns the first error of all writes to z.
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// compareBuilt orders kernels by architecture and release, so that similar ones are neighbours.
func compareBuilt(x, y built) int {
	return cmp.Or(cmp.Compare(x.Arch, y.Arch), cmp.Compare(x.Release, y.Release))
}

// distinct returns the different blobs, in the order of their first kernels, and for each kernel
// the index of its blob.
func distinct(kernels []built) (blobs [][]byte, numbers []int) {
	seen := make(map[string]int)
	for _, k := range kernels {
		n, ok := seen[string(k.raw)]
		if !ok {
			n = len(blobs)
			seen[string(k.raw)] = n
			blobs = append(blobs, k.raw)
		}
		numbers = append(numbers, n)
	}
	return blobs, numbers
}
