// Package ingest adds kernels to the archive of package btfhub: it finds them in directories with
// the layout of btfhub-archive, and reduces their types to those that quark reads.
//
// It is not a part of package btfhub, so that a program that only looks types up does not get the
// decompressors.
package ingest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/btfhub/excerpt"
)

// Kernel is a file with the types of a kernel.
type Kernel struct {
	btfhub.Entry
	Path string
}

// arches maps names of architectures to GOARCH.
var arches = map[string]string{"x86_64": "amd64", "amd64": "amd64", "arm64": "arm64", "aarch64": "arm64"}

// Kernels finds the kernels in a directory with the layout of btfhub-archive:
// distro/version/arch/release.btf.tar.xz, or another form of packing. It leaves out the
// architectures that quark does not support.
func Kernels(dir string) ([]Kernel, error) {
	var found []Kernel
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if k, ok := kernelAt(rel); ok {
			k.Path = path
			found = append(found, k)
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%s: no kernel in it: distro/version/arch/release.btf.tar.xz is wanted", dir)
	}
	slices.SortFunc(found, func(a, b Kernel) int { return strings.Compare(a.Path, b.Path) })
	return found, err
}

// fileName matches the names of files with BTF: the release, and how it is packed.
var fileName = regexp.MustCompile(`^(.+)\.btf(?:\.tar)?(?:\.(?:xz|zst|gz))?$`)

func kernelAt(path string) (Kernel, bool) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	if len(parts) != 4 || arches[parts[2]] == "" {
		return Kernel{}, false
	}
	name := fileName.FindStringSubmatch(parts[3])
	if name == nil {
		return Kernel{}, false
	}
	return Kernel{Entry: btfhub.Entry{Release: name[1], Arch: arches[parts[2]], Distro: parts[0]}}, true
}

// Load returns the kernel's raw BTF.
func (k Kernel) Load() ([]byte, error) { return loadPacked(k.Path) }

// Types returns the excerpt of a kernel's raw BTF that the archive has, in which all targets have
// the same places. It is an error if a target is missing that quark needs.
func Types(raw []byte, members []string) ([]byte, error) {
	whole, err := resolve(raw)
	if err != nil {
		return nil, err
	}
	if missing := whole.Missing(); missing != nil {
		return nil, fmt.Errorf("the types lack %s", strings.Join(missing, ", "))
	}
	small, err := excerpt.Make(raw, members)
	if err != nil {
		return nil, err
	}
	offsets, err := resolve(small)
	if err != nil {
		return nil, err
	}
	for _, o := range whole.All() {
		after := offsets.Get(o.Target.Name)
		if after.Path != o.Path || !after.Same(o) {
			return nil, fmt.Errorf("reduce types: %s is lost or moved", o.Target.Name)
		}
	}
	return small, nil
}

func resolve(raw []byte) (*btfhub.Offsets, error) {
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return btfhub.Resolve(spec), nil
}
