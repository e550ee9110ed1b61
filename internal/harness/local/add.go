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

// Added describes a kernel that Add has added.
type Added struct {
	Name string // without [Prefix]
	Kernel
}

// Add copies a kernel image to a directory, and replaces an image of the same name. modules is the
// directory of the kernel's modules, lib/modules/RELEASE, or "". If the image does not contain its
// release, Add uses the name of this directory.
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
			return a, fmt.Errorf("%s: want the modules of %s, the release of the image", modules, release)
		}
		release = cmp.Or(release, named)
	}
	if !isPlain(release) {
		return a, fmt.Errorf("%s: the image does not contain its release: also pass the directory of its modules", image)
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

// readImage reads a regular file. Reading other files, such as a FIFO, might not end.
func readImage(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return os.ReadFile(path)
}

// isPlain reports whether a release is valid as a file name and as a word of a command line.
func isPlain(release string) bool {
	return release != "" && release[0] != '.' && !strings.ContainsFunc(release, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\'"$*?[]`, r)
	})
}

// nameOf returns the release with the architecture, which it appends if the release lacks it.
func nameOf(release, arch string) string {
	for _, word := range []string{"amd64", "x86_64", "arm64", "aarch64"} {
		if strings.Contains(release, word) {
			return release
		}
	}
	return release + "-" + arch
}
