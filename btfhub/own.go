package btfhub

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/btfhub/excerpt"
)

// excerptOf returns what quark needs of the types that the kernel offers in a file.
func excerptOf(f *os.File) (*btf.Spec, error) {
	raw, err := mapTypes(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	defer unix.Munmap(raw)
	small, err := excerpt.Make(raw, Needed())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return btf.LoadSpecFromReader(bytes.NewReader(small))
}

// mapTypes returns a file's content until it is unmapped. Only kernels since 6.16
// can map their types, others are read.
func mapTypes(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(st.Size())
	raw, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		raw, err = readTypes(f, size)
	}
	return raw, err
}

// readTypes is as mapTypes. The memory is not the garbage collector's, for which
// it would have to wait.
func readTypes(f io.Reader, size int) ([]byte, error) {
	raw, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(f, raw); err != nil {
		unix.Munmap(raw)
		return nil, err
	}
	return raw, nil
}
