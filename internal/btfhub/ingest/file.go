package ingest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// maxBTF is the largest BTF that is read, about ten times that of a kernel.
const maxBTF = 64 << 20

// Load returns the types in a file: raw BTF, an ELF file with a .BTF section, or a kernel image.
func Load(path string) (*btf.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	spec, err := load(f)
	if errors.Is(err, btf.ErrNotFound) {
		err = vmlinuz.ErrNoBTF
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

func load(f *os.File) (*btf.Spec, error) {
	start := make([]byte, 4)
	switch _, err := f.ReadAt(start, 0); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("too short for BTF, an ELF file or a kernel image")
	case err != nil:
		return nil, err
	case string(start) == elf.ELFMAG, string(start[:2]) == "\x9f\xeb", string(start[:2]) == "\xeb\x9f":
		return btf.LoadSpecFromReader(f)
	}
	image, err := readAll(f, vmlinuz.MaxSize)
	if err != nil {
		return nil, err
	}
	raw, err := vmlinuz.BTF(image)
	if err != nil {
		return nil, err
	}
	return btf.LoadSpecFromReader(bytes.NewReader(raw))
}

func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, errors.New("larger than any kernel or its BTF")
	}
	return b, err
}

// loadPacked returns the raw BTF in a file of btfhub-archive.
func loadPacked(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil && !strings.HasSuffix(path, ".btf") {
		data, err = vmlinuz.Decompress(data, maxBTF)
	}
	if err == nil && strings.Contains(path, ".btf.tar") {
		data, err = untar(data)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
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
