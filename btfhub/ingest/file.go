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

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// maxBTF is the largest accepted BTF, about ten times the size of a kernel's.
const maxBTF = 64 << 20

// Found has the types in a file, and the release and architecture of their kernel.
type Found struct {
	Types   *btf.Spec
	Release string // "" if unknown
	Arch    string // GOARCH; "" if unknown
}

// Read returns the types in a file: raw BTF (plain or compressed as in btfhub-archive), an ELF file
// with a section .BTF, or a kernel image.
func Read(path string) (Found, error) {
	f, err := os.Open(path)
	if err != nil {
		return Found{}, err
	}
	defer f.Close()
	found, raw, err := read(f)
	if err == nil {
		found.Types, err = btf.LoadSpecFromReader(bytes.NewReader(raw))
	}
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

// read returns the raw BTF in a file, and the release and architecture of its kernel.
func read(f *os.File) (found Found, raw []byte, err error) {
	head := make([]byte, 8)
	if n, err := f.ReadAt(head, 0); n < len(head) {
		if errors.Is(err, io.EOF) {
			err = errors.New("too short for BTF, an ELF file or a kernel image")
		}
		return found, nil, err
	}
	switch {
	case string(head[:2]) == "\x9f\xeb", string(head[:2]) == "\xeb\x9f":
		raw, err = readAll(f, maxBTF)
		return found, raw, err
	case string(head[:4]) == elf.ELFMAG:
		return readELF(f)
	case fileName.MatchString(filepath.Base(f.Name())):
		raw, err = unpackBTF(f)
		return found, raw, err
	}
	image, err := readAll(f, vmlinuz.MaxSize)
	if err != nil {
		return found, nil, err
	}
	if raw, err = vmlinuz.BTF(image); err != nil {
		return found, nil, err
	}
	found.Release = vmlinuz.Release(image)
	if _, arch, err := vmlinuz.Bootable(image); err == nil { // a compressed arm64 vmlinux
		found.Arch = arch
	}
	return found, raw, nil
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, errors.New("larger than any kernel or its BTF")
	}
	return b, err
}

var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// errNoSection is returned for an ELF file without BTF.
var errNoSection = errors.New("no section .BTF: make a file with BTF from debug information with 'pahole --btf_encode_detached=FILE'")

// readELF reads the section .BTF of an ELF file.
func readELF(r io.ReaderAt) (found Found, raw []byte, err error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return found, nil, err
	}
	found.Arch = machines[f.Machine]
	if s := f.Section(".rodata"); s != nil && s.Type != elf.SHT_NOBITS && s.Size <= vmlinuz.MaxSize {
		if text, err := s.Data(); err == nil {
			found.Release = vmlinuz.BannerRelease(text)
		}
	}
	s := f.Section(".BTF")
	if s == nil || s.Type == elf.SHT_NOBITS {
		return found, nil, errNoSection
	}
	raw, err = readAll(s.Open(), maxBTF)
	return found, raw, err
}

// unpackBTF returns the raw BTF in a file of btfhub-archive.
func unpackBTF(f *os.File) ([]byte, error) {
	name := filepath.Base(f.Name())
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
