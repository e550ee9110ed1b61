package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// Prefix begins the names of local kernels.
const Prefix = "local/"

// Suffixes of the files that accompany an image.
const (
	jsonSuffix = ".json"
	btfSuffix  = ".btf"
)

// Kernel describes a kernel that was added.
type Kernel struct {
	Release string `json:"release"`
	Arch    string `json:"arch"` // GOARCH
	BTF     bool   `json:"btf"`  // it has BTF
}

// Rows returns a row for each image in a directory, which may be missing. A file that is not an
// image is an error, because the user who put it there expects it to be tested.
func Rows(dir string) ([]catalogue.Row, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for local kernels: %w", err)
	}
	var rows []catalogue.Row
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, jsonSuffix) || strings.HasSuffix(name, btfSuffix) {
			continue
		}
		row, err := row(dir, name)
		if err != nil {
			return nil, fmt.Errorf("local kernel %s: %w", filepath.Join(dir, name), err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func row(dir, name string) (catalogue.Row, error) {
	r := catalogue.Row{Name: Prefix + name, Default: true, GoTests: true}
	var err error
	if r.Arch, err = imageArch(filepath.Join(dir, name)); err != nil {
		return r, err
	}
	if _, err := os.Stat(filepath.Join(dir, name+btfSuffix)); err == nil {
		r.BTFFile = name + btfSuffix
	}
	b, err := os.ReadFile(filepath.Join(dir, name+jsonSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var k Kernel
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return r, fmt.Errorf("read its description: %w: add it again", err)
	}
	if k.Arch != "" { // a gzip file does not show its architecture
		r.Arch = k.Arch
	}
	r.Series = k.Release
	if k.BTF {
		r.Features = []string{"btf"}
	}
	r.NoBTF = !k.BTF && r.BTFFile == ""
	archive, err := btfhub.Embedded()
	if err != nil {
		return r, err
	}
	_, err = archive.Lookup(k.Release, k.Arch)
	r.Unarchived = err != nil
	return r, nil
}

func imageArch(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	arch := vmlinuz.Arch(head)
	if arch == "" {
		return "", errors.New("not a kernel image: want x86 bzImage or vmlinux, or arm64 Image; remove the file")
	}
	return arch, nil
}
