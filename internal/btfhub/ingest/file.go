package ingest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub/dwarfbtf"
	"github.com/quark-linux/quark/internal/distropkg"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// maxBTF is the largest BTF that is read, about ten times that of a kernel.
const maxBTF = 64 << 20

// Found is the types that a file has, and what it says of their kernel.
type Found struct {
	Raw     []byte // BTF
	Release string // "" if the file does not say
	Arch    string // GOARCH; "" if the file does not say
}

// Read returns the types in a file: raw BTF, also packed as btfhub-archive has it, an ELF file with
// a .BTF section or with debug information, a kernel image, or a package with one of the latter
// three. Of debug information it takes what members need, see package dwarfbtf. It writes the
// kernel in a package to a temporary file: one with debug information has up to a gigabyte.
func Read(path string, members []string) (Found, error) {
	f, err := os.Open(path)
	if err != nil {
		return Found{}, err
	}
	defer f.Close()
	found, err := read(f, filepath.Base(path), members)
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

// Load returns the types in a file, see [Read].
func Load(path string, members []string) (*btf.Spec, error) {
	found, err := Read(path, members)
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(found.Raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

// read reads a file of the given name, which says whether it is packed BTF.
func read(f *os.File, name string, members []string) (found Found, err error) {
	head := make([]byte, 8)
	if n, err := f.ReadAt(head, 0); n < len(head) {
		if errors.Is(err, io.EOF) {
			err = errors.New("too short for BTF, an ELF file, a kernel image or a package")
		}
		return found, err
	}
	switch {
	case string(head[:2]) == "\x9f\xeb", string(head[:2]) == "\xeb\x9f":
		found.Raw, err = readAll(f, maxBTF)
		return found, err
	case string(head[:4]) == elf.ELFMAG:
		return readELF(f, members)
	case distropkg.Is(head):
		return readPackage(f.Name(), members)
	case fileName.MatchString(name):
		found.Raw, err = unpackBTF(f, name)
		return found, err
	}
	image, err := readAll(f, vmlinuz.MaxSize)
	if err != nil {
		return found, err
	}
	if found.Raw, err = vmlinuz.BTF(image); err != nil {
		return found, err
	}
	found.Release = vmlinuz.Release(image)
	if _, arch, err := vmlinuz.Bootable(image); err == nil { // else a packed vmlinux of arm64
		found.Arch = arch
	}
	return found, nil
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, errors.New("larger than any kernel or its BTF")
	}
	return b, err
}

var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// readELF reads the section .BTF of an ELF file, or else its debug information.
func readELF(r io.ReaderAt, members []string) (found Found, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return found, err
	}
	found.Arch = machines[f.Machine]
	if s := f.Section(".rodata"); s != nil && s.Type != elf.SHT_NOBITS && s.Size <= vmlinuz.MaxSize {
		if text, err := s.Data(); err == nil {
			found.Release = vmlinuz.BannerRelease(text)
		}
	}
	if s := f.Section(".BTF"); s != nil && s.Type != elf.SHT_NOBITS {
		found.Raw, err = readAll(s.Open(), maxBTF)
		return found, err
	}
	found.Raw, err = dwarfbtf.Make(f, members)
	if errors.Is(err, dwarfbtf.ErrNone) {
		err = fmt.Errorf("%w, and %w: a package of debug information has a vmlinux with it", vmlinuz.ErrNoBTF, err)
	}
	return found, err
}

// unpackBTF returns the raw BTF in a file of btfhub-archive.
func unpackBTF(f *os.File, name string) ([]byte, error) {
	data, err := readAll(f, maxBTF)
	if err == nil && !strings.HasSuffix(name, ".btf") && !strings.HasSuffix(name, ".tar") {
		data, err = vmlinuz.Decompress(data, maxBTF)
	}
	if err == nil && strings.Contains(name, ".btf.tar") {
		data, err = untar(data)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return data, nil
}

func untar(data []byte) ([]byte, error) {
	for t := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil, errors.New("no .btf in it")
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg && strings.HasSuffix(h.Name, ".btf") {
			return readAll(t, maxBTF)
		}
	}
}
