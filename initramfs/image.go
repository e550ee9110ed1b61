package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/u-root/u-root/pkg/cpio"
)

// Image says what goes into an initramfs.
type Image struct {
	Arch     string   // GOARCH of the guest
	Init     string   // path of pid 1's binary
	Binaries []string // paths of the binaries for /bin, each under its base name
	Multi    string   // path of a binary that is several commands, "" for none
	Names    []string // its names in /bin, hard links to one file
	Files    []string // paths of other files for /, each under its base name
}

// machines maps a GOARCH to the ELF machine that its binaries must have. A binary for another
// machine would only show as a kernel panic in the guest.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64,
	"arm64": elf.EM_AARCH64,
}

// directories of the image: mount points of init's table first, then what files need. The kernel
// makes no parent directories when it unpacks an archive, so each stands after its parent.
var directories = []struct {
	name string
	perm uint64
}{
	{"bin", 0o755},
	{"dev", 0o755},
	{"etc", 0o755},
	{"proc", 0o555},
	{"root", 0o700},
	{"run", 0o755},
	{"sys", 0o555},
	{"tmp", 0o1777},
	{"var", 0o755},
	{"var/empty", 0o755},
}

const (
	passwd = "root:x:0:0:root:/root:/bin/false\n" +
		"nobody:x:65534:65534:nobody:/var/empty:/bin/false\n"
	group = "root:x:0:\n" +
		"tty:x:5:\n" +
		"nogroup:x:65534:\n"
)

// Write writes the gzipped archive.
func (img Image) Write(w io.Writer) error {
	records, err := img.records()
	if err != nil {
		return err
	}
	// No name and no time in the gzip header: the zero header is the reproducible one.
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeArchive(zw, records); err != nil {
		return err
	}
	return zw.Close()
}

func writeArchive(w io.Writer, records []cpio.Record) error {
	cpio.MakeAllReproducible(records)
	rw := cpio.Newc.Writer(w)
	if err := cpio.WriteRecords(rw, records); err != nil {
		return err
	}
	return cpio.WriteTrailer(rw)
}

// records returns all of the archive's records in the order in which the kernel is to make them.
func (img Image) records() ([]cpio.Record, error) {
	machine, ok := machines[img.Arch]
	if !ok {
		return nil, fmt.Errorf("unknown architecture %q: amd64 and arm64 are known", img.Arch)
	}

	var records []cpio.Record
	for _, d := range directories {
		records = append(records, cpio.Directory(d.name, d.perm))
	}
	records = append(records,
		// The kernel opens /dev/console for pid 1 before anything is mounted.
		cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.CharDev("dev/null", 0o666, 1, 3),
		cpio.StaticFile("etc/passwd", passwd, 0o644),
		cpio.StaticFile("etc/group", group, 0o644),
	)

	init, err := binaryRecord(img.Init, "init", machine)
	if err != nil {
		return nil, err
	}
	var rest []cpio.Record
	seen := make(map[string]string)
	claim := func(path, name string) error {
		if other, ok := seen[name]; ok {
			return fmt.Errorf("add %s: %s is there under the same name", path, other)
		}
		seen[name] = path
		return nil
	}
	for _, path := range img.Binaries {
		name := filepath.Base(path)
		if err := claim(path, name); err != nil {
			return nil, err
		}
		rec, err := binaryRecord(path, "bin/"+name, machine)
		if err != nil {
			return nil, err
		}
		rest = append(rest, rec)
	}
	links, err := img.linked(machine)
	if err != nil {
		return nil, err
	}
	for _, name := range img.Names {
		if err := claim(img.Multi, name); err != nil {
			return nil, err
		}
	}
	names := map[string]bool{"init": true}
	for _, d := range directories {
		names[d.name] = true
	}
	for _, path := range img.Files {
		name := filepath.Base(path)
		if names[name] {
			return nil, fmt.Errorf("add %s: the image has another %s", path, name)
		}
		names[name] = true
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
		rest = append(rest, cpio.StaticFile(name, string(content), 0o644))
	}
	// The order of the operands is no property of the image.
	sort.Slice(rest, func(i, j int) bool { return rest[i].Name < rest[j].Name })
	records = append(records, init)
	records = append(records, links...)
	records = append(records, rest...)

	digest, err := digest(records)
	if err != nil {
		return nil, err
	}
	return append(records, cpio.StaticFile("etc/os-release", osRelease(digest), 0o644)), nil
}

// linked returns a record for each name of the multi-call binary. The kernel makes a hard link of a
// record with the inode number of an earlier one; only the first has contents.
func (img Image) linked(machine elf.Machine) ([]cpio.Record, error) {
	const inode = 1 // all other records have 0
	var records []cpio.Record
	for i, name := range slices.Sorted(slices.Values(img.Names)) {
		rec := cpio.StaticFile("bin/"+name, "", 0o755)
		if i == 0 {
			var err error
			if rec, err = binaryRecord(img.Multi, "bin/"+name, machine); err != nil {
				return nil, err
			}
		}
		rec.Ino, rec.NLink = inode, uint64(len(img.Names))
		records = append(records, rec)
	}
	return records, nil
}

// binaryRecord returns a record named name with the contents of the file at path, which must be a
// static binary for machine.
func binaryRecord(path, name string, machine elf.Machine) (cpio.Record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return cpio.Record{}, fmt.Errorf("add %s: %w (make build makes the binaries)", name, err)
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return cpio.Record{}, fmt.Errorf("add %s: %s is no ELF binary: %w", name, path, err)
	}
	defer f.Close()
	if f.Machine != machine {
		return cpio.Record{}, fmt.Errorf("add %s: %s is for %s, the image for %s", name, path, f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return cpio.Record{}, fmt.Errorf("add %s: %s is linked dynamically and the image has no libraries: build it with CGO_ENABLED=0", name, path)
		}
	}
	return cpio.StaticFile(name, string(content), 0o755), nil
}

// digest returns the SHA-256 of the uncompressed archive of records, in hex: what the guest names
// as its image.
func digest(records []cpio.Record) (string, error) {
	h := sha256.New()
	if err := writeArchive(h, records); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// osRelease returns an os-release file (see os-release(5)) whose IMAGE_VERSION is the digest.
func osRelease(digest string) string {
	return "NAME=quark\nID=quark\nPRETTY_NAME=\"quark initramfs\"\nIMAGE_ID=quark-initramfs\nIMAGE_VERSION=" + digest + "\n"
}
