package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/btfhub/ingest"
	"github.com/quark-linux/quark/internal/vmlinuz"
	"github.com/quark-linux/quark/internal/wholefile"
)

// Values of [Kernel].BTF.
const (
	btfInKernel = "kernel"
	btfInFile   = "file"
	btfNone     = "none"
)

// Added is a kernel that Add has added.
type Added struct {
	Name string // without [Prefix]
	Kernel
}

// Add adds kernels to a directory. A file is an image, or a package, deb or rpm, with an image, a
// configuration, modules or debug information. Those of one release are one kernel: it needs an
// image; the types are taken from the image or else from debug information. An image that is there
// under the kernel's name is replaced.
func Add(dir string, files []string) ([]Added, error) {
	parts := make(map[string]*parts)
	for _, file := range files {
		if err := collect(parts, file); err != nil {
			return nil, err
		}
	}
	var added []Added
	for _, release := range slices.Sorted(maps.Keys(parts)) {
		a, err := parts[release].add(dir, release)
		if err != nil {
			return added, fmt.Errorf("kernel %s: %w", release, err)
		}
		added = append(added, a)
	}
	if added == nil {
		return nil, fmt.Errorf("no kernel in %s", strings.Join(files, ", "))
	}
	return added, nil
}

// add writes the files of a kernel.
func (p *parts) add(dir, release string) (a Added, err error) {
	if p.image == nil {
		return a, fmt.Errorf("no image in %s: add its package too (linux-image-*, kernel-core, kernel-default)", strings.Join(p.sources, ", "))
	}
	_, arch, err := vmlinuz.Bootable(p.image)
	if err != nil {
		return a, err
	}
	known := btfhub.ParseRelease(release)
	a = Added{nameOf(release, arch), Kernel{Release: release, Arch: arch, Distro: known.Distro, Flavour: known.Flavour,
		Sources: p.sources, Modules: p.modules, BTF: btfInKernel}}
	if p.config != nil {
		if err := p.config.bootable(arch); err != nil {
			return a, err
		}
		a.Features = p.config.features()
	}
	var types []byte
	if _, err := vmlinuz.BTF(p.image); errors.Is(err, vmlinuz.ErrNoBTF) {
		a.BTF = btfNone
		if p.debug != "" {
			a.BTF = btfInFile
			types, err = typesOf(p.debug)
			if err != nil {
				return a, err
			}
		}
	} else if err != nil {
		return a, err
	} else if !slices.Contains(a.Features, "btf") {
		a.Features = append(a.Features, "btf")
	}
	description, err := json.MarshalIndent(a.Kernel, "", "\t")
	if err != nil {
		return a, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return a, err
	}
	path := filepath.Join(dir, a.Name)
	if types == nil {
		err = os.Remove(path + btfSuffix)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	} else {
		err = wholefile.Write(path+btfSuffix, types)
	}
	return a, errors.Join(err, wholefile.Write(path+jsonSuffix, append(description, '\n')), wholefile.Write(path, p.image))
}

// typesOf returns what quark reads of the types in a file.
func typesOf(file string) ([]byte, error) {
	found, err := ingest.Read(file, btfhub.Needed())
	if err != nil {
		return nil, err
	}
	return ingest.Types(found.Raw, btfhub.Needed())
}

// nameOf returns the release with the architecture, which not every distribution has in it.
func nameOf(release, arch string) string {
	for _, word := range []string{"amd64", "x86_64", "arm64", "aarch64"} {
		if strings.Contains(release, word) {
			return release
		}
	}
	return release + "-" + arch
}
