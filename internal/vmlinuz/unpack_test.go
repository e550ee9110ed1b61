package vmlinuz

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// arm64Image is the smallest arm64 Image with the given contents behind its
// header.
func arm64Image(content []byte) []byte {
	head := make([]byte, 64)
	copy(head[56:], "ARM\x64")
	return append(head, content...)
}

// rawBTF looks like BTF with n bytes of strings.
func rawBTF(n int) []byte {
	b := append([]byte{}, header...)
	for _, v := range []uint32{0, 4, 4, uint32(n)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, 1, 2, 3, 4, 0)
	b = append(b, bytes.Repeat([]byte{'x'}, n-2)...)
	return append(b, 0)
}

func zboot(payload []byte) []byte {
	b := make([]byte, 128)
	copy(b, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(b[8:], 128)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(payload)))
	return append(b, payload...)
}

func bzImage(payload []byte) []byte {
	b := make([]byte, 3*512+16)
	b[setupSectsAt] = 2
	copy(b[magicAt:], "HdrS")
	binary.LittleEndian.PutUint16(b[versionAt:], 0x20f)
	b[flagsAt] = entryIs64
	binary.LittleEndian.PutUint32(b[payloadOffsetAt:], 16)
	binary.LittleEndian.PutUint32(b[payloadLengthAt:], uint32(len(payload)))
	return append(b, payload...)
}

// sized appends the unpacked size to a stream, as a kernel build does to all but gzip's.
func sized(packed []byte, size int) []byte {
	return binary.LittleEndian.AppendUint32(packed, uint32(size))
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return sized(w.EncodeAll(b, nil), len(b))
}

func lz4ed(b []byte) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		panic(err)
	}
	w.Write(b)
	w.Close()
	return sized(out.Bytes(), len(b))
}

func xzed(t testing.TB, b []byte) []byte {
	cmd := exec.Command("xz", "--check=crc32", "--x86", "--lzma2=dict=1MiB", "-c")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no xz to pack with: %v", err)
	}
	return sized(out, len(b))
}

func TestUnpack(t *testing.T) {
	want := rawBTF(5000)
	image := arm64Image(append(bytes.Repeat([]byte("code"), 3000), want...))
	for name, tt := range map[string]func() []byte{
		"plain":        func() []byte { return image },
		"gzip":         func() []byte { return gzipped(image) },
		"zboot gzip":   func() []byte { return zboot(gzipped(image)) },
		"zboot zstd":   func() []byte { return zboot(zstded(image)) },
		"bzImage gzip": func() []byte { return bzImage(gzipped(image)) },
		"bzImage zstd": func() []byte { return bzImage(zstded(image)) },
		"bzImage lz4":  func() []byte { return bzImage(lz4ed(image)) },
		"bzImage xz":   func() []byte { return bzImage(xzed(t, image)) },
		"gzip zboot":   func() []byte { return gzipped(zboot(zstded(image))) },
	} {
		t.Run(name, func(t *testing.T) {
			packed := tt()
			got, err := BTF(packed)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got %d other bytes, want %d", len(got), len(want))
			}
			for n := 0; n < len(packed); n += len(packed)/97 + 1 {
				if got, err := BTF(packed[:n]); err == nil {
					t.Errorf("cut to %d of %d bytes: got %d bytes and no error", n, len(packed), len(got))
				}
			}
		})
	}
}

func TestUnpackIsBounded(t *testing.T) {
	image := arm64Image(make([]byte, 1<<20))
	for name, packed := range map[string][]byte{
		"gzip": gzipped(image), "zstd": zstded(image), "lz4": lz4ed(image), "xz": xzed(t, image),
	} {
		if _, err := Unpack(packed, len(image)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Unpack(packed, len(image)-1); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: error %v, want %v", name, err, errTooLarge)
		}
	}
	nested := image
	for range maxLayers + 1 {
		nested = gzipped(nested)
	}
	if _, err := Unpack(nested, 1<<24); err == nil {
		t.Error("packed too often: no error")
	}
}

// TestFilterX86 unpacks machine code that xz has filtered: this test's own.
func TestFilterX86(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	code, err := os.ReadFile(exe)
	if err != nil {
		t.Skip(err)
	}
	code = code[:min(len(code), 4<<20)]
	got, err := unxz(xzed(t, code), len(code))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, code) {
		at := 0
		for got[at] == code[at] {
			at++
		}
		t.Errorf("from byte %d on: got % x, want % x", at, got[at:at+8], code[at:at+8])
	}
}

// vmlinux returns the smallest ELF file of a machine, with a note if it is not empty.
func vmlinux(t *testing.T, machine elf.Machine, note string) []byte {
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	p := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: uint64(len(note))}
	for _, part := range []any{h, p, []byte(note)} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

const pvhNote = "\x04\x00\x00\x00\x08\x00\x00\x00\x12\x00\x00\x00Xen\x00\x00\x00\x00\x01\x00\x00\x00\x00"

func TestBootable(t *testing.T) {
	x86, arm := vmlinux(t, elf.EM_X86_64, pvhNote), arm64Image([]byte("code"))
	bz := bzImage(gzipped(x86))
	i386 := bytes.Clone(bz)
	i386[flagsAt] = 0
	for _, tt := range []struct {
		name        string
		image, want []byte
		arch, err   string
	}{
		{"bzImage", bz, bz, "amd64", ""},
		{"damaged bzImage", bz[:len(bz)-9], bz[:len(bz)-9], "amd64", ""},
		{"gzip bzImage", gzipped(bz), bz, "amd64", ""},
		{"vmlinux", x86, x86, "amd64", ""},
		{"Image", arm, arm, "arm64", ""},
		{"Image.gz", gzipped(arm), arm, "arm64", ""},
		{"zboot", zboot(zstded(arm)), arm, "arm64", ""},
		{"truncated zboot", zboot(zstded(arm))[:130], nil, "", "unpack EFI zboot image: "},
		{"vmlinux of another machine", vmlinux(t, elf.EM_RISCV, ""), nil, "", "unsupported architecture"},
		{"bzImage of 32 bits", i386, nil, "", "unsupported architecture"},
		{"text", []byte("text"), nil, "", "no kernel image"},
	} {
		got, arch, err := Bootable(tt.image)
		if !bytes.Equal(got, tt.want) || arch != tt.arch || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got %d bytes, %q, error %v; want %d, %q, %q", tt.name, len(got), arch, err, len(tt.want), tt.arch, tt.err)
		}
	}
}

func TestVmlinux(t *testing.T) {
	x86 := vmlinux(t, elf.EM_X86_64, pvhNote)
	for _, tt := range []struct {
		name        string
		image, want []byte
	}{
		{"PVH", bzImage(lz4ed(x86)), x86},
		{"no note", bzImage(gzipped(vmlinux(t, elf.EM_X86_64, ""))), nil},
		{"another note", bzImage(gzipped(vmlinux(t, elf.EM_X86_64, strings.Replace(pvhNote, "\x12", "\x11", 1)))), nil},
		{"damaged", bzImage(gzipped(x86)[:40]), nil},
		{"no bzImage", x86, nil},
	} {
		if got := Vmlinux(tt.image); !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %d bytes, want %d", tt.name, len(got), len(tt.want))
		}
	}
}

func TestNoBTF(t *testing.T) {
	for name, image := range map[string][]byte{
		"no types":   arm64Image(make([]byte, 100)),
		"header":     arm64Image(header),
		"truncated":  arm64Image(rawBTF(50)[:40]),
		"no strings": arm64Image(append(append([]byte{}, header...), make([]byte, 100)...)),
	} {
		if _, err := BTF(image); !errors.Is(err, ErrNoBTF) {
			t.Errorf("%s: error %v, want %v", name, err, ErrNoBTF)
		}
	}
	for _, text := range []string{"", "MZ", strings.Repeat("x", 5000)} {
		if _, err := BTF([]byte(text)); err == nil {
			t.Errorf("%d arbitrary bytes: got no error", len(text))
		}
	}
}

func FuzzBTF(f *testing.F) {
	image := arm64Image(append(bytes.Repeat([]byte("code"), 300), rawBTF(500)...))
	f.Add(image)
	f.Add(gzipped(image))
	f.Add(zboot(zstded(image)))
	f.Add(bzImage(lz4ed(image)))
	f.Add(bzImage(xzed(f, image)))
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		unpacked, err := Unpack(data, 16<<20)
		for _, release := range []string{headerRelease(data), BannerRelease(data), BannerRelease(unpacked)} {
			if len(release) > maxRelease || strings.ContainsAny(release, " \n\x00") {
				t.Errorf("release %q", release)
			}
		}
		if err != nil {
			return
		}
		raw, err := section(unpacked)
		if err == nil && len(raw) > len(unpacked) {
			t.Errorf("%d bytes of BTF in %d", len(raw), len(unpacked))
		}
	})
}
