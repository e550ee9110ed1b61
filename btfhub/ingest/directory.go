// Package ingest adds kernels to the archive of package btfhub: it finds types in files of many
// kinds and in directories with the layout of btfhub-archive, and reduces them to those that quark
// reads.
//
// Package btfhub does not import it, so that programs that only look up types do not link the
// decompressors.
package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// Kernel is a file with the types of a kernel.
type Kernel struct {
	btfhub.Entry // empty for a kernel image: the file has the release
	Path         string
}

// arches maps names of architectures to GOARCH.
var arches = map[string]string{"x86_64": "amd64", "amd64": "amd64", "arm64": "arm64", "aarch64": "arm64"}

// Kernels returns the kernel in a file, or the kernels in a directory with the layout of
// btfhub-archive, distro/version/arch/release.btf.tar.xz. The BTF may have another compression.
// Kernels skips architectures that quark does not support.
func Kernels(dir string) ([]Kernel, error) {
	if st, err := os.Stat(dir); err == nil && st.Mode().IsRegular() {
		return []Kernel{{Path: dir}}, nil
	}
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
		err = fmt.Errorf("%s: no kernel found: want distro/version/arch/release.btf.tar.xz", dir)
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

// Load returns the kernel's entry and its types, see [Read].
func (k Kernel) Load() (btfhub.Entry, *btf.Spec, error) {
	found, err := Read(k.Path)
	if err != nil {
		return k.Entry, nil, err
	}
	if k.Release == "" {
		k.Entry, err = found.Entry()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", k.Path, err)
	}
	return k.Entry, found.Types, err
}

// Entry returns the archive entry of a file with a known kernel.
func (f Found) Entry() (btfhub.Entry, error) {
	if f.Release == "" || f.Arch == "" {
		return btfhub.Entry{}, errors.New("the file does not name its kernel")
	}
	return btfhub.Entry{Release: f.Release, Arch: f.Arch, Distro: distro(f.Release)}, nil
}

var (
	debianRelease = regexp.MustCompile(`-(amd64|arm64)$`)
	// RHEL and its relatives, Fedora, Amazon Linux, openEuler.
	taggedRelease = regexp.MustCompile(`\.(el|fc|amzn|oe)[0-9]+`)
)

// distro returns the distribution that a release string names, or "other".
func distro(release string) string {
	if tag := taggedRelease.FindString(release); tag != "" {
		return tag[1:]
	}
	if debianRelease.MatchString(release) {
		return "debian"
	}
	return "other"
}

// Reduce returns a kernel's types as raw BTF for an archive, with unchanged offsets. It is an error
// if a required target is missing.
func Reduce(types *btf.Spec, members []string) ([]byte, error) {
	whole := btfhub.Resolve(types)
	if missing := whole.Missing(); missing != nil {
		return nil, fmt.Errorf("the types lack %s", strings.Join(missing, ", "))
	}
	small, err := btfhub.Reduce(types, members)
	if err != nil {
		return nil, err
	}
	if types, err = btf.LoadSpecFromReader(bytes.NewReader(small)); err != nil {
		return nil, err
	}
	offsets := btfhub.Resolve(types)
	for _, o := range whole.All() {
		after := offsets.Get(o.Target.Name)
		if after.Path != o.Path || !after.Same(o) {
			return nil, fmt.Errorf("reduce types: %s is lost or moved", o.Target.Name)
		}
	}
	return small, nil
}
