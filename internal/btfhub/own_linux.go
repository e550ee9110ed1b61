package btfhub

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/btfhub/excerpt"
)

// kernelSpec reads the kernel's own types. It fails if there are none: btf.LoadKernelSpec would
// search for debug information in the file system, possibly of another kernel.
func kernelSpec(whole bool) (*Kernel, error) {
	f, err := os.Open(KernelBTF)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k := &Kernel{Origin: KernelBTF, Exact: true}
	if !whole {
		if err := k.excerpt(f); err == nil {
			return k, nil
		}
	}
	k.Spec, err = btf.LoadKernelSpec()
	return k, err
}

// excerpt reads the needed types from the file of the kernel's types.
func (k *Kernel) excerpt(f *os.File) error {
	raw, err := mapTypes(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}
	defer unix.Munmap(raw)
	small, err := excerpt.Make(raw, append(Needed(), IteratorMembers...))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	ids := excerpt.IDs(raw, "bpf_iter_task", "bpf_rdonly_cast", "struct new_utsname")
	k.TaskIterator, k.Cast, k.Bytes = btf.TypeID(ids[0]), btf.TypeID(ids[1]), btf.TypeID(ids[2])
	k.Spec, err = btf.LoadSpecFromReader(bytes.NewReader(small))
	return err
}

// mapTypes maps a file into memory; the caller unmaps it. Before Linux 6.16 the kernel's types
// cannot be mapped, and are read into anonymous memory.
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

// readTypes reads a file into memory that it maps: unmapping releases it at once, without a garbage
// collection.
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
