package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/distropkg"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// parts are what was found of a kernel.
type parts struct {
	sources []string // names of the files that have a part
	image   []byte
	config  config
	modules int
	debug   string // path of the package with its vmlinux
}

// collect adds the parts that a file has to those of their releases.
func collect(all map[string]*parts, file string) error {
	of := func(release string) *parts {
		if all[release] == nil {
			all[release] = new(parts)
		}
		p := all[release]
		if name := filepath.Base(file); !slices.Contains(p.sources, name) {
			p.sources = append(p.sources, name)
		}
		return p
	}
	if err := regular(file); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 8)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if distropkg.Is(head[:n]) {
		if err := collectPackage(of, file); errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: the package is truncated", err)
		} else {
			return err
		}
	}
	image, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if _, _, err := vmlinuz.Bootable(image); err != nil {
		return fmt.Errorf("%s: %w, or a package, deb or rpm", file, err)
	}
	release := vmlinuz.Release(image)
	if !plain(release) {
		if _, err := vmlinuz.Unpack(image, vmlinuz.MaxSize); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return fmt.Errorf("%s: it does not say its release, as every kernel does: if it is one, put it into kernel_images/local/ under a name of yours", file)
	}
	of(release).image = image
	return nil
}

// regular returns an error for what is no regular file: some of these would be waited for.
func regular(file string) error {
	st, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if target, linkErr := os.Readlink(file); linkErr == nil {
			return fmt.Errorf("%s: a link to %s: %w", file, target, fs.ErrNotExist)
		}
	}
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: no regular file", file)
	}
	return err
}

func collectPackage(of func(string) *parts, file string) error {
	p, err := distropkg.Open(file)
	if err != nil {
		return err
	}
	defer p.Close()
	found := false
	for {
		f, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		release, part := partOf(f.Name)
		if part == "" || f.Link != "" || !plain(release) {
			continue
		}
		found = true
		switch k := of(release); part {
		case "image":
			if k.image, err = io.ReadAll(io.LimitReader(p, vmlinuz.MaxSize)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		case "config":
			text, err := io.ReadAll(io.LimitReader(p, maxConfig))
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			k.config = parseConfig(string(text))
		case "debug":
			k.debug = file
		case "module":
			k.modules++
		}
	}
	if !found {
		return fmt.Errorf("%s: nothing of a kernel in it: a package with its image, modules or debug information is wanted", file)
	}
	return nil
}

const maxConfig = 4 << 20

// partOf returns what a file of a package is of a kernel, "" for nothing.
func partOf(name string) (release, part string) {
	release, ok := distropkg.KernelFile(name)
	base := path.Base(name)
	switch {
	case ok && strings.HasPrefix(base, "vmlinux"):
		return release, "debug"
	case ok:
		return release, "image"
	case distropkg.IsModule(name) && !strings.Contains(name, "lib/debug/"):
		return distropkg.ModulesOf(name), "module"
	case base == "config":
		return distropkg.ModulesOf(name), "config"
	case strings.HasPrefix(name, "boot/config-"):
		return strings.TrimPrefix(base, "config-"), "config"
	}
	return "", ""
}

// plain reports whether a release can be the name of a file and a word of a command line.
func plain(release string) bool {
	return release != "" && release[0] != '.' && !strings.ContainsFunc(release, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`/\'"$*?[]`, r)
	})
}
