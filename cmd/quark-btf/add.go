package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/btfhub/ingest"
	"github.com/quark-linux/quark/internal/wholefile"
)

// addKernel adds a kernel's types to an archive file. It makes the file if there is none.
func (o *options) addKernel(w io.Writer) error {
	path, distro, release := o.operands[0], o.operands[1], o.operands[2]
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
	k, err := o.kernel()
	if err != nil {
		return err
	}
	if !k.Exact {
		return fmt.Errorf("the types are those of %s: name a file with the true ones with -f", k.Origin)
	}
	raw, err := marshal(k.Spec)
	if err != nil {
		return err
	}
	if raw, err = ingest.Types(raw, btfhub.Needed()); err != nil {
		return err
	}
	if err := b.Add(btfhub.Entry{Release: release, Arch: o.arch, Distro: distro}, raw); err != nil {
		return err
	}
	data, err := b.Marshal()
	if err != nil {
		return err
	}
	if err := wholefile.Write(path, data); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %d kernels with %d different types in %d bytes\n", path, len(a.Kernels()), a.Blobs(), len(data))
	return nil
}

// marshal returns types as raw BTF.
func marshal(types *btf.Spec) ([]byte, error) {
	var b btf.Builder
	for t, err := range types.All() {
		if err == nil {
			_, err = b.Add(t)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Marshal(nil, nil)
}
