package ingest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
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

func kernelAt(path string) (Kernel, bool) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	if len(parts) != 4 || arches[parts[2]] == "" {
		return Kernel{}, false
	}
	for _, s := range suffixes {
		if release, ok := strings.CutSuffix(parts[3], s.suffix); ok && release != "" {
			return Kernel{Entry: btfhub.Entry{Release: release, Arch: arches[parts[2]], Distro: parts[0]}}, true
		}
	}
	return Kernel{}, false
}

// MissingError is the error for types that lack targets which are not optional.
type MissingError struct{ Targets []string }

func (e *MissingError) Error() string {
	return "the types lack " + strings.Join(e.Targets, ", ")
}

// Load reads the kernel's types.
func (k Kernel) Load() (*btf.Spec, error) { return loadPacked(k.Path) }

// Types reduces a kernel's types and checks that all targets have the same places in the result. If
// they lack a target that quark needs, the error is a [*MissingError].
func Types(kernel *btf.Spec, members []string) ([]byte, error) {
	whole := btfhub.Resolve(kernel)
	if missing := whole.Missing(); missing != nil {
		return nil, &MissingError{missing}
	}
	raw, err := Reduce(kernel, members)
	if err != nil {
		return nil, err
	}
	reduced, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read reduced types: %w", err)
	}
	after := btfhub.Resolve(reduced)
	for o := range whole.All() {
		r := after.Get(o.Target.Name)
		if r.Path != o.Path || !r.Same(o) {
			return nil, fmt.Errorf("reduce types: %s is lost or moved", o.Target.Name)
		}
	}
	return raw, nil
}
