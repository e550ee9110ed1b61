package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"github.com/quark-linux/quark/internal/harness/debian"
)

// format is the version of the archive format.
const format = 2

// archiveName is the name of the archive in the cache. It depends on the programs.
func archiveName(release, arch string) string {
	return fmt.Sprintf("%s-%s-%.16x.cpio.zst", release, arch, sha256.Sum256(fmt.Append(nil, format, programs())))
}

// tree holds the files of packages that may be needed, by merged path.
type tree struct {
	files map[string][]byte
	links map[string]string // symbolic links with their targets
	bins  map[string]string // the path of each "PACKAGE PROGRAM"
}

// add adds the programs and libraries of a package.
func (t *tree) add(ctx context.Context, deb, pkg string) error {
	return debian.Files(ctx, deb, func(h *tar.Header, r io.Reader) (bool, error) {
		name := merged(h.Name)
		dir, base := path.Base(path.Dir(name)), path.Base(name)
		isBin := dir == "bin" || dir == "sbin"
		if !isBin && !strings.Contains(base, ".so") {
			return false, nil
		}
		switch h.Typeflag {
		case tar.TypeReg:
			content, err := io.ReadAll(r)
			if err != nil {
				return false, err
			}
			t.files[name] = content
		case tar.TypeSymlink:
			to := h.Linkname
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(name), to)
			}
			t.links[name] = to
		default:
			return false, nil
		}
		if isBin {
			t.bins[pkg+" "+base] = name
		}
		return false, nil
	})
}

// read returns the content of a file.
func (t *tree) read(name string) ([]byte, bool) {
	for range 8 { // follow chains of links
		name = merged(name)
		if content, ok := t.files[name]; ok {
			return content, true
		}
		to, ok := t.links[name]
		if !ok {
			return nil, false
		}
		name = to
	}
	return nil, false
}

// wanted returns the programs and the libraries that they need, by path.
func (t *tree) wanted() (map[string][]byte, error) {
	wanted := make(map[string][]byte)
	for _, p := range programs() {
		content, ok := t.read(t.bins[p.pkg+" "+p.name])
		if !ok {
			continue // a name of the program in another release
		}
		wanted["bin/"+p.as] = content
		if err := t.need(content, p.name, wanted); err != nil {
			return nil, err
		}
	}
	for _, pkg := range roots() {
		if !slices.ContainsFunc(programs(), func(p program) bool { return p.pkg == pkg && wanted["bin/"+p.as] != nil }) {
			return nil, fmt.Errorf("package %s contains none of the expected programs", pkg)
		}
	}
	return wanted, nil
}

// merged returns a path without a leading slash and without usr: packages use /lib or /usr/lib.
func merged(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean("/"+name), "/"), "usr/")
}

// triplets are the directories of libraries by machine.
var triplets = map[elf.Machine]string{elf.EM_X86_64: "x86_64-linux-gnu", elf.EM_AARCH64: "aarch64-linux-gnu"}

// need adds the dependencies of an ELF file: its interpreter, its libraries and their dependencies.
func (t *tree) need(content []byte, name string, wanted map[string][]byte) error {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s is not an ELF binary: %w", name, err)
	}
	defer f.Close()
	triplet := triplets[f.Machine]
	if triplet == "" {
		return fmt.Errorf("%s is for %s", name, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b, err := io.ReadAll(p.Open())
		if err != nil {
			return fmt.Errorf("read the interpreter of %s: %w", name, err)
		}
		at := strings.Trim(string(b), "/\x00")
		if wanted[at], err = t.library(at, name); err != nil {
			return err
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read the libraries of %s: %w", name, err)
	}
	for _, lib := range libraries {
		at := "usr/lib/" + triplet + "/" + lib
		if wanted[at] != nil {
			continue
		}
		if wanted[at], err = t.library(at, name); err != nil {
			return err
		}
		if err := t.need(wanted[at], lib, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) library(at, name string) ([]byte, error) {
	content, ok := t.read(at)
	if !ok {
		return nil, fmt.Errorf("%s needs /%s, which no package contains", name, at)
	}
	return content, nil
}

// packagesFile is the file of the image that lists its packages.
const packagesFile = "etc/monitor-packages"

// pack writes a compressed archive of files. The kernel unpacks it after the image's own, and does
// not create parent directories.
func pack(files map[string][]byte, packages string) ([]byte, error) {
	dirs := make(map[string]bool)
	for name := range files {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	var records []cpio.Record
	for _, d := range slices.Sorted(maps.Keys(dirs)) {
		records = append(records, cpio.Directory(d, 0o755))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		records = append(records, cpio.StaticFile(name, string(files[name]), 0o755))
	}
	records = append(records, cpio.StaticFile(packagesFile, packages, 0o644),
		cpio.Symlink("var/run", "/run")) // programs write their pid files there
	cpio.MakeAllReproducible(records)
	var b bytes.Buffer
	// On an emulated machine, zstd unpacks in a fraction of gzip's time.
	z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	w := cpio.Newc.Writer(z)
	if err := cpio.WriteRecords(w, records); err != nil {
		return nil, err
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
