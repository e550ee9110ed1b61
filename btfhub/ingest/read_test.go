package ingest

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/btfhub"
)

// elfWith returns an ELF file with sections like a vmlinux has.
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
	// An image has no sections: Read finds the BTF by its header.
	vmlinux := elfWith(t, elf.EM_X86_64, map[string][]byte{".BTF": raw, ".rodata": banner})
	image := arm64Image(banner, raw)
	dir := t.TempDir()
	for name, body := range map[string][]byte{
		"raw.btf": raw, "btf": raw, "vmlinux": vmlinux, "image": image, "packed.btf.tar.xz": packXZ(t, packTar(t, "x.btf", raw)),
		"stripped": elfWith(t, elf.EM_X86_64, map[string][]byte{".rodata": banner}), "packed-vmlinux.gz": gzipped(t, vmlinux), "short": raw[:7], "text": []byte("This is no kernel."), "cut": raw[:len(raw)-1],
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
		{"packed-vmlinux.gz", release, "amd64", ""},
		{"stripped", "", "", "pahole --btf_encode_detached"},
		{"short", "", "", "too short"},
		{"text", "", "", "no kernel image"},
		{"missing", "", "", "no such file"},
	} {
		found, err := Read(filepath.Join(dir, tt.file))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), tt.file) {
				t.Errorf("%s: got error %v, want one with %q", tt.file, err, tt.err)
			}
			continue
		}
		if err != nil || found.Release != tt.release || found.Arch != tt.arch {
			t.Errorf("%s: got %q on %q, error %v, want %q on %q", tt.file, found.Release, found.Arch, err, tt.release, tt.arch)
			continue
		}
		if !btfhub.HasMember(found.Types, "task_struct.tgid") {
			t.Errorf("%s: no task_struct.tgid in its types", tt.file)
		}
		entry, err := found.Entry()
		if named := tt.release != "" && tt.arch != ""; named != (err == nil) || named && entry.Distro == "" {
			t.Errorf("%s: entry %v, %v", tt.file, entry, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "cut")); err == nil {
		t.Error("cut BTF: no error")
	}
	kernels, err := Kernels(filepath.Join(dir, "image"))
	if err != nil || len(kernels) != 1 {
		t.Fatal(kernels, err)
	}
	if e, _, err := kernels[0].Load(); err != nil || e.Distro+" "+e.Arch+" "+e.Release != "el8 arm64 "+release {
		t.Errorf("an image: %v, %v", e, err)
	}
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b) // cannot fail
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}
