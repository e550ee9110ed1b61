package ingest

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/distropkg/distropkgtest"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// elfWith returns an ELF file with sections, as vmlinux has them.
func elfWith(t *testing.T, machine elf.Machine, sections map[string][]byte) []byte {
	t.Helper()
	names, headers, body := []byte{0}, []elf.Section64{{}}, []byte(nil)
	add := func(name string, kind elf.SectionType, data []byte) {
		headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(kind), Off: uint64(64 + len(body)), Size: uint64(len(data))})
		names = append(append(names, name...), 0)
		body = append(body, data...)
	}
	for name, data := range sections {
		add(name, elf.SHT_PROGBITS, data)
	}
	add(".shstrtab", elf.SHT_STRTAB, nil)
	last := &headers[len(headers)-1]
	last.Off, last.Size = uint64(64+len(body)), uint64(len(names))
	body = append(body, names...)
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Shentsize: 64,
		Shoff: uint64(64 + len(body)), Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1)}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{h, body, headers} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// arm64Image returns the smallest arm64 Image with contents.
func arm64Image(content ...[]byte) []byte {
	head := make([]byte, 64)
	copy(head[56:], "ARM\x64")
	return append(head, bytes.Join(content, nil)...)
}

// TestRead reads types from each kind of file.
func TestRead(t *testing.T) {
	_, raw := embeddedBTF(t)
	const release = "4.18.0-80.el8.x86_64"
	banner := []byte("Linux version " + release + " (mockbuild@host) #1 SMP\n\x00")
	// The image's BTF starts with a header, so that it is found.
	vmlinux := elfWith(t, elf.EM_X86_64, map[string][]byte{".BTF": raw, ".rodata": banner})
	image := arm64Image(banner, raw)
	debug, err := os.ReadFile("../dwarfbtf/testdata/dwarf5.o")
	if err != nil {
		t.Fatal(err)
	}
	none, err := os.ReadFile("../dwarfbtf/testdata/none.o")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pack := func(name, arch string, files ...distropkgtest.File) {
		p := distropkgtest.Package{Name: "kernel", Version: "4.18.0", Release: "80.el8", Arch: arch, Packing: "zstd", Files: files}
		if strings.HasSuffix(name, ".rpm") {
			p.WriteRPM(t, filepath.Join(dir, name))
		} else {
			p.WriteDeb(t, filepath.Join(dir, name))
		}
	}
	file := func(name string, body []byte) distropkgtest.File { return distropkgtest.File{Name: name, Body: body} }
	pack("kernel-debuginfo.rpm", "x86_64",
		file("/usr/lib/debug/lib/modules/"+release+"/kernel/fs/ext4/ext4.ko.debug", none),
		file("/usr/lib/debug/lib/modules/"+release+"/vmlinux", debug))
	pack("kernel-core.rpm", "aarch64",
		distropkgtest.File{Name: "/lib/modules/" + release + "/build", Body: []byte("/usr/src"), Link: true},
		file("/lib/modules/"+release+"/vmlinuz", image))
	pack("suse.rpm", "x86_64", file("/boot/vmlinux-5.3.18-59-default.gz", gzipped(t, vmlinux)))
	pack("dbg.deb", "amd64", file("/usr/lib/debug/boot/vmlinux-6.1.0-56-amd64", vmlinux))
	pack("dbgsym.ddeb", "arm64",
		// One without types: the next is read.
		file("/boot/vmlinuz-6.1.0-1-generic", arm64Image(banner)),
		file("/usr/lib/debug/boot/vmlinux-6.1.0-2-generic", vmlinux))
	pack("nothing.deb", "amd64", file("/usr/share/doc/kernel/README", []byte("no kernel")))
	pack("image.deb", "arm64", file("/boot/vmlinuz-6.1.0-1-generic", arm64Image(banner)))
	for name, body := range map[string][]byte{
		"raw.btf": raw, "btf": raw, "vmlinux": vmlinux, "image": image, "packed.btf.tar.xz": packXZ(t, packTar(t, "x.btf", raw)),
		"dwarf": debug, "stripped": none, "short": raw[:7], "text": []byte("This is no kernel."), "cut": raw[:len(raw)-1],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ file, release, arch, err string }{
		{"raw.btf", "", "", ""},
		{"btf", "", "", ""},
		{"packed.btf.tar.xz", "", "", ""},
		{"vmlinux", release, "amd64", ""},
		{"image", release, "arm64", ""},
		{"dwarf", "", "amd64", ""},
		{"kernel-debuginfo.rpm", release, "amd64", ""},
		{"kernel-core.rpm", release, "arm64", ""},
		{"suse.rpm", "5.3.18-59-default", "amd64", ""},
		{"dbg.deb", "6.1.0-56-amd64", "amd64", ""},
		{"dbgsym.ddeb", "6.1.0-2-generic", "amd64", ""},
		{"stripped", "", "", "a package of debug information has a vmlinux with it"},
		{"nothing.deb", "", "", "no kernel in it"},
		{"image.deb", "", "", "boot/vmlinuz-6.1.0-1-generic: " + vmlinuz.ErrNoBTF.Error()},
		{"short", "", "", "too short"},
		{"text", "", "", "no kernel image"},
		{"missing", "", "", "no such file"},
	} {
		found, err := Read(filepath.Join(dir, tt.file), []string{"task_struct.tgid"})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), tt.file) {
				t.Errorf("%s: error %v, want one with %q", tt.file, err, tt.err)
			}
			continue
		}
		if err != nil || found.Release != tt.release || found.Arch != tt.arch {
			t.Errorf("%s: %q on %q, %v, want %q on %q", tt.file, found.Release, found.Arch, err, tt.release, tt.arch)
			continue
		}
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(found.Raw))
		if err != nil || !btfhub.HasMember(spec, "task_struct.tgid") {
			t.Errorf("%s: no task_struct.tgid in its types, %v", tt.file, err)
		}
		entry, err := found.Entry()
		if named := tt.release != "" && tt.arch != ""; named != (err == nil) || named && entry.Distro == "" {
			t.Errorf("%s: entry %v, %v", tt.file, entry, err)
		}
	}
	if _, err := Load(filepath.Join(dir, "cut"), nil); err == nil {
		t.Error("cut BTF: no error")
	}
	// Others may read packages meanwhile.
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := Read(filepath.Join(dir, "dbg.deb"), nil); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "quark-kernel-*"))
	if err != nil || left != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}

	// Packages are found in a directory, too, and say what they are of.
	if err := os.MkdirAll(filepath.Join(dir, "centos/8/x86_64"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "centos/8/x86_64/vmlinux-4.18.0-90.el8.x86_64"), vmlinux, 0o644),
		os.WriteFile(filepath.Join(dir, "centos/8/x86_64/4.18.0-91.el8.x86_64.btf"), raw, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := Kernels(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range kernels {
		e, _, err := k.Load(btfhub.Needed())
		if err == nil {
			got = append(got, e.Distro+" "+e.Arch+" "+e.Release)
		}
	}
	want := []string{"centos amd64 4.18.0-91.el8.x86_64", "centos amd64 4.18.0-90.el8.x86_64", "debian amd64 6.1.0-56-amd64",
		"ubuntu amd64 6.1.0-2-generic", "el8 arm64 " + release, "el8 amd64 " + release, "suse amd64 5.3.18-59-default"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b) // a buffer takes all
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}
