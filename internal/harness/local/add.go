package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// Added is a kernel that Add has added.
type Added struct {
	Name string // without [Prefix]
	Kernel
}

// Add copies a kernel image to a directory, in place of one of the same name. modules is the
// directory of the kernel's modules, lib/modules/RELEASE, or "". Its name is the release of an
// image that does not name its own.
func Add(dir, image, modules string) (a Added, err error) {
	content, err := readImage(image)
	if err != nil {
		return a, err
	}
	_, arch, err := vmlinuz.Bootable(content)
	if err != nil {
		return a, fmt.Errorf("%s: %w", image, err)
	}
	release := vmlinuz.Release(content)
	if modules != "" {
		named := filepath.Base(modules)
		if release != "" && named != release {
			return a, fmt.Errorf("%s: the modules of %s are wanted, as the image is of that release", modules, release)
		}
		release = cmp.Or(release, named)
	}
	if !plain(release) {
		return a, fmt.Errorf("%s: it does not name its release: give the directory of its modules as well", image)
	}
	a = Added{nameOf(release, arch), Kernel{Release: release, Arch: arch}}
	if _, err := vmlinuz.BTF(content); err == nil {
		a.BTF = true
	} else if !errors.Is(err, vmlinuz.ErrNoBTF) {
		return a, fmt.Errorf("%s: %w", image, err)
	}
	description, err := json.MarshalIndent(a.Kernel, "", "\t")
	if err != nil {
		return a, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return a, err
	}
	path := filepath.Join(dir, a.Name)
	return a, errors.Join(atomicfile.Write(path+jsonSuffix, append(description, '\n')), atomicfile.Write(path, content))
}

// readImage reads a regular file: reading of some others would not end.
func readImage(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file", path)
	}
	return os.ReadFile(path)
}

// plain reports whether a release can be the name of a file and a word of a command line.
func plain(release string) bool {
	return release != "" && release[0] != '.' && !strings.ContainsFunc(release, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\'"$*?[]`, r)
	})
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
