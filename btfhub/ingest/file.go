package ingest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/quark-linux/quark/internal/vmlinuz"
)

// maxBTF is the largest BTF that is read, about ten times that of a kernel.
const maxBTF = 64 << 20

// Load reads the types in a file: raw BTF, an ELF file with a .BTF section, or a
// kernel image.
func Load(path string) (*btf.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, 4)
	if n, err := f.ReadAt(start, 0); n < len(start) {
		if errors.Is(err, io.EOF) {
			err = errors.New("too short for BTF, an ELF file or a kernel image")
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec, err := load(f, start)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, nil
}

func load(f *os.File, start []byte) (*btf.Spec, error) {
	// These are not read as a whole: an ELF file may have gigabytes of debug information.
	if string(start) == "\x7fELF" || string(start[:2]) == "\x9f\xeb" || string(start[:2]) == "\xeb\x9f" {
		return btf.LoadSpecFromReader(f)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > vmlinuz.MaxSize {
		return nil, errors.New("too large for a kernel image")
	}
	image, err := io.ReadAll(io.LimitReader(f, vmlinuz.MaxSize))
	if err != nil {
		return nil, err
	}
	raw, err := vmlinuz.BTF(image)
	if err != nil {
		return nil, err
	}
	return btf.LoadSpecFromReader(bytes.NewReader(raw))
}

// suffixes are the endings of files with BTF and the functions that unpack them.
var suffixes = []struct {
	suffix string
	unpack func(io.Reader) ([]byte, error)
}{
	{".btf.tar.xz", untarxz},
	{".btf.xz", unxz},
	{".btf.zst", unzstd},
	{".btf.gz", gunzip},
	{".btf", read},
}

// loadPacked reads the types in a packed file.
func loadPacked(path string) (*btf.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, s := range suffixes {
		if !strings.HasSuffix(path, s.suffix) {
			continue
		}
		raw, err := s.unpack(f)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", path, err)
		}
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return spec, nil
	}
	return nil, fmt.Errorf("%s: its name does not end in .btf or a packed form of that", path)
}

func read(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxBTF+1))
	if len(b) > maxBTF {
		return nil, errors.New("larger than any kernel's BTF")
	}
	return b, err
}

func gunzip(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return read(z)
}

func unzstd(r io.Reader) ([]byte, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxBTF))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return read(z)
}

func unxz(r io.Reader) ([]byte, error) {
	z, err := xz.NewReader(r, xz.DefaultDictMax)
	if err != nil {
		return nil, err
	}
	return read(z)
}

func untarxz(r io.Reader) ([]byte, error) {
	z, err := xz.NewReader(r, xz.DefaultDictMax)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil, errors.New("no .btf in it")
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg && strings.HasSuffix(h.Name, ".btf") {
			return read(t)
		}
	}
}
