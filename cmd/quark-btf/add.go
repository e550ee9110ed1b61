package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/btfhub/ingest"
	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// addKernel adds a kernel's types to an archive file. It creates the file if necessary.
func (o *options) addKernel(w io.Writer) error {
	path := o.operands[0]
	var b btfhub.Builder
	old, err := readArchive(path)
	switch {
	case err == nil:
		err = b.AddArchive(old)
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	e, types, err := o.newEntry()
	if err != nil {
		return err
	}
	raw, err := ingest.Reduce(types, btfhub.Needed())
	if err != nil {
		return err
	}
	if err := b.Add(e, raw); err != nil {
		return err
	}
	data, err := b.Marshal()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path, data); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		return err
	}
	if len(o.operands) == 1 {
		fmt.Fprintf(w, "%s %s %s\n", e.Release, e.Arch, e.Distro)
	}
	fmt.Fprintf(w, "%s: %d kernels with %d different types in %d bytes\n", path, len(a.Kernels()), a.Blobs(), len(data))
	return nil
}

// newEntry returns the types of -f or of the running kernel, and their archive entry. The operands
// and -a set the entry, else the file of -f does.
func (o *options) newEntry() (e btfhub.Entry, types *btf.Spec, err error) {
	named := btfhub.Entry{Arch: o.arch}
	if len(o.operands) == 3 {
		named.Distro, named.Release = o.operands[1], o.operands[2]
	}
	if o.file == "" {
		k, err := o.kernel()
		if err != nil {
			return e, nil, err
		}
		if named.Release == "" {
			running, err := kernelversion.Running()
			if err != nil {
				return e, nil, err
			}
			if named, err = (ingest.Found{Release: running, Arch: runtime.GOARCH}).Entry(); err != nil {
				return e, nil, err
			}
		}
		return named, k.Spec, nil
	}
	found, err := ingest.Read(o.file)
	if err != nil {
		return e, nil, err
	}
	switch {
	case found.Arch != "" && o.archNamed && found.Arch != o.arch:
		return e, nil, fmt.Errorf("%s is for %s, not for %s of -a", o.file, found.Arch, o.arch)
	case found.Arch == "":
		found.Arch = o.arch
	}
	if named.Release != "" {
		named.Arch = found.Arch
		return named, found.Types, nil
	}
	if e, err = found.Entry(); err != nil {
		err = fmt.Errorf("%s: %w: name distribution and release", o.file, err)
	}
	return e, found.Types, err
}
