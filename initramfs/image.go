package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"
)

// Image is the content of an initramfs. Binaries and Files keep their base names.
type Image struct {
	Arch     string   // GOARCH of the guest
	Init     string   // path of pid 1's binary
	Binaries []string // paths of the binaries for /bin
	Multi    string   // path of a binary that is several commands; "": none
	Names    []string // names of Multi in /bin: hard links to one file
	Files    []string // paths of other files, for /
}

// machines maps a GOARCH to the ELF machine of its binaries. With a binary for another machine the
// guest's kernel would panic.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64,
	"arm64": elf.EM_AARCH64,
}

// directories of the image, each after its parent: the kernel does not create parents when it
// unpacks an archive.
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
	// The gzip header has no name and no time, so that the same files give the same bytes.
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

// records returns the archive's records in the order in which the kernel creates the files.
func (img Image) records() ([]cpio.Record, error) {
	machine, ok := machines[img.Arch]
	if !ok {
		return nil, fmt.Errorf("unknown architecture %q: want amd64 or arm64", img.Arch)
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
	links, err := img.linked(machine)
	if err != nil {
		return nil, err
	}
	records = append(append(records, init), links...)

	var rest []cpio.Record
	for _, path := range img.Binaries {
		rec, err := binaryRecord(path, "bin/"+filepath.Base(path), machine)
		if err != nil {
			return nil, err
		}
		rest = append(rest, rec)
	}
	for _, path := range img.Files {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", filepath.Base(path), err)
		}
		mode := uint64(0o644)
		if st, err := os.Stat(path); err == nil && st.Mode()&0o100 != 0 {
			mode = 0o755
		}
		rest = append(rest, cpio.StaticFile(filepath.Base(path), string(content), mode))
	}
	// The order of the arguments does not change the image.
	slices.SortStableFunc(rest, func(a, b cpio.Record) int { return cmp.Compare(a.Name, b.Name) })
	records = append(records, rest...)

	seen := make(map[string]bool)
	for _, r := range records {
		if seen[r.Name] {
			return nil, fmt.Errorf("two files have the same path /%s: rename one", r.Name)
		}
		seen[r.Name] = true
	}
	return records, nil
}

// linked returns a record for each name of Multi. The kernel makes a record with the inode number
// of an earlier one a hard link to it; only the first has contents.
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

// binaryRecord returns a record of the file at path, which must be a static binary for machine.
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
