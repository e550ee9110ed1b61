package local

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/distropkg/distropkgtest"
	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/usercache"
)

const goodConfig = `# Linux/x86_64 Kernel Configuration
CONFIG_BLK_DEV_INITRD=y
CONFIG_RD_GZIP=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y
CONFIG_KPROBE_EVENTS=y
CONFIG_BPF_SYSCALL=y
# CONFIG_PROC_EVENTS is not set
CONFIG_PERF_EVENTS=y
CONFIG_EXT4_FS=m
`

// image returns the smallest arm64 Image with contents.
func image(content ...[]byte) []byte {
	head := make([]byte, 64)
	copy(head[56:], "ARM\x64")
	return append(head, bytes.Join(content, nil)...)
}

// types returns those of a kernel of the embedded archive.
func types(t *testing.T) []byte {
	t.Helper()
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return a.BTF(a.Kernels()[0])
}

func file(name string, body []byte) distropkgtest.File {
	return distropkgtest.File{Name: name, Body: body}
}

// TestAdd adds kernels as distributions pack them.
func TestAdd(t *testing.T) {
	from := t.TempDir()
	banner := func(release string) []byte { return []byte("Linux version " + release + " (a@b)\x00") }
	pack := func(name, arch string, files ...distropkgtest.File) {
		p := distropkgtest.Package{Name: "kernel", Version: "1", Release: "1", Arch: arch, Packing: "gzip", Files: files}
		if strings.HasSuffix(name, ".rpm") {
			p.WriteRPM(t, filepath.Join(from, name))
		} else {
			p.WriteDeb(t, filepath.Join(from, name))
		}
	}
	const rhel, ubuntu = "5.14.0-427.13.1.el9_4.aarch64", "5.15.0-91-generic"
	modules := "/lib/modules/" + rhel
	pack("kernel-core.rpm", "aarch64", file(modules+"/vmlinuz", image(banner(rhel), types(t))), file(modules+"/config", []byte(goodConfig)),
		distropkgtest.File{Name: modules + "/build", Body: []byte("/usr/src"), Link: true})
	pack("kernel-modules.rpm", "aarch64", file(modules+"/kernel/fs/ext4/ext4.ko.xz", nil), file(modules+"/kernel/net/a.ko.xz", nil))
	pack("linux-image.deb", "arm64", file("/boot/vmlinuz-"+ubuntu, image(banner(ubuntu))))
	pack("linux-modules.deb", "arm64", file("/boot/config-"+ubuntu, []byte(goodConfig)), file("/lib/modules/"+ubuntu+"/kernel/a.ko", nil))
	pack("linux-dbgsym.ddeb", "arm64", file("/usr/lib/debug/boot/vmlinux-"+ubuntu, types(t)), // for raw BTF the same is done
		file("/usr/lib/debug/lib/modules/"+ubuntu+"/kernel/a.ko", nil))
	pack("headers.deb", "arm64", file("/usr/src/linux-headers/Makefile", nil))
	pack("no-serial.deb", "arm64", file("/boot/vmlinuz-1.2.3", image(banner("1.2.3"), types(t))),
		file("/boot/config-1.2.3", []byte(strings.Replace(goodConfig, "PL011_CONSOLE=y", "PL011_CONSOLE=m", 1))))
	pack("evil.deb", "arm64", file("/boot/vmlinuz-$(x)", image(types(t))))
	for name, body := range map[string][]byte{
		"plain": image(banner("6.6.8-arch1-1"), types(t)), "nameless": image(types(t)), "text": []byte("text"), "empty": nil,
	} {
		if err := os.WriteFile(filepath.Join(from, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	features := []string{"kprobes", "perf_events", "bpf"}
	withBTF := append(slices.Clone(features), "btf")
	for _, tt := range []struct {
		files string
		want  []Added
		row   catalogue.Row // of the first
		err   string
	}{
		{"kernel-core.rpm kernel-modules.rpm",
			[]Added{{rhel, Kernel{rhel, "arm64", "el9", "generic", []string{"kernel-core.rpm", "kernel-modules.rpm"}, withBTF, 2, "kernel"}}},
			catalogue.Row{Distro: "el9", Flavour: "generic", Features: withBTF, Unarchived: true}, ""},
		{"linux-modules.deb linux-image.deb",
			[]Added{{ubuntu + "-arm64", Kernel{ubuntu, "arm64", "ubuntu", "generic", []string{"linux-modules.deb", "linux-image.deb"}, features, 1, "none"}}},
			catalogue.Row{Distro: "ubuntu", Flavour: "generic", Features: features, NoBTF: true, Unarchived: true}, ""},
		{"linux-image.deb linux-dbgsym.ddeb",
			[]Added{{ubuntu + "-arm64", Kernel{ubuntu, "arm64", "ubuntu", "generic", []string{"linux-image.deb", "linux-dbgsym.ddeb"}, nil, 0, "file"}}},
			catalogue.Row{Distro: "ubuntu", Flavour: "generic", BTFFile: ubuntu + "-arm64.btf", Unarchived: true}, ""},
		{"plain",
			[]Added{{"6.6.8-arch1-1-arm64", Kernel{Release: "6.6.8-arch1-1", Arch: "arm64", Sources: []string{"plain"}, Features: []string{"btf"}, BTF: "kernel"}}},
			catalogue.Row{Features: []string{"btf"}, Unarchived: true}, ""},
		{"kernel-modules.rpm", nil, catalogue.Row{}, "no image in kernel-modules.rpm: add its package too"},
		{"headers.deb", nil, catalogue.Row{}, "nothing of a kernel in it"},
		{"no-serial.deb", nil, catalogue.Row{}, "kernel 1.2.3: a guest cannot boot it or not report: it has CONFIG_SERIAL_AMBA_PL011_CONSOLE not built in"},
		{"evil.deb", nil, catalogue.Row{}, "nothing of a kernel in it"},
		{"nameless", nil, catalogue.Row{}, "does not say its release"},
		{"text", nil, catalogue.Row{}, "or a package, deb or rpm"},
		{"empty", nil, catalogue.Row{}, "or a package, deb or rpm"},
		{"missing", nil, catalogue.Row{}, "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "local")
		var files []string
		for name := range strings.FieldsSeq(tt.files) {
			files = append(files, filepath.Join(from, name))
		}
		for range 2 { // again, in place of the first
			added, err := Add(dir, files)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%s: error %v, want one with %q", tt.files, err, tt.err)
				}
				if rows, err := Rows(dir); err != nil || rows != nil {
					t.Errorf("%s: rows %v, %v", tt.files, rows, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", tt.files, err)
				continue
			}
			if diff := cmp.Diff(tt.want, added); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.files, diff)
			}
			rows, err := Rows(dir)
			want := tt.row
			want.Name, want.Arch, want.Series, want.Default, want.GoTests = Prefix+tt.want[0].Name, "arm64", tt.want[0].Release, true, true
			if diff := cmp.Diff([]catalogue.Row{want}, rows); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.files, err, diff)
			}
			small, err := os.ReadFile(filepath.Join(dir, tt.want[0].Name+".btf"))
			if (err == nil) != (tt.want[0].BTF == "file") || err == nil && !bytes.Equal(small, types(t)) {
				t.Errorf("%s: %d bytes of types, %v", tt.files, len(small), err)
			}
		}
	}
}

// What is no kernel, or not all of one, gets one line that names the file and says what it is.
func TestAddRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, body []byte) {
		if err := os.WriteFile(path(name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(name string) {
		whole, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		put("half-"+name, whole[:len(whole)/2])
		put("head-"+name, whole[:20])
	}
	for _, packing := range []string{"gzip", "zstd", "xz"} {
		body := make([]byte, 1<<16) // that does not shrink to nothing
		rand.NewChaCha8([32]byte{}).Read(body)
		p := distropkgtest.Package{Name: "kernel", Version: "1", Release: "1", Arch: "x86_64", Packing: packing, Files: []distropkgtest.File{
			file("/boot/vmlinuz-6.6.6", image([]byte("Linux version 6.6.6 (a@b)\x00"), types(t), body)),
		}}
		p.WriteRPM(t, path(packing+".rpm"))
		cut(packing + ".rpm")
		if packing != "xz" {
			p.WriteDeb(t, path(packing+".deb"))
			cut(packing + ".deb")
		}
	}
	bzImage := make([]byte, 2048)
	copy(bzImage[0x202:], "HdrS\x0f\x02")
	bzImage[0x236] = 1
	put("short", bzImage)
	bzImage[0x236] = 0
	put("i386", bzImage)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	put("program", append(program[:18:18], append([]byte{62, 0}, program[20:4096]...)...))
	put("other", append(program[:18:18], append([]byte{21, 0}, program[20:4096]...)...)) // ppc64
	for _, err := range []error{os.Symlink("nowhere", path("link")), os.Mkdir(path("dir"), 0o755), unix.Mkfifo(path("fifo"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"half-gzip.rpm": "truncated", "half-zstd.rpm": "truncated", "half-xz.rpm": "truncated", "half-gzip.deb": "truncated", "half-zstd.deb": "truncated",
		"head-gzip.rpm": "truncated", "head-zstd.rpm": "truncated", "head-xz.rpm": "truncated", "head-gzip.deb": "truncated", "head-zstd.deb": "truncated",
		"short": "truncated", "i386": "an architecture that quark is not for", "other": "an architecture that quark is not for",
		"program": "it does not say its release", "link": "a link to nowhere: file does not exist", "dir": "no regular file", "fifo": "no regular file",
	} {
		_, err := Add(path("local"), []string{path(name)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path(name)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want a line with %q", name, err, want)
		}
	}
	for _, name := range []string{"gzip.rpm", "zstd.rpm", "xz.rpm", "gzip.deb", "zstd.deb"} {
		if _, err := Add(path("local"), []string{path(name)}); err != nil {
			t.Errorf("%s whole: %v", name, err)
		}
	}
}

// A kernel in gzip is of the architecture that it has, though the arm64 Image is what is packed so.
func TestAddGzip(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("\x1f\x8b"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.json"), []byte(`{"release":"6.6.6","arch":"amd64","btf":"none"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if rows, err := Rows(dir); err != nil || len(rows) != 1 || rows[0].Arch != "amd64" {
		t.Errorf("rows %v, %v", rows, err)
	}
}

func TestDamagedDescription(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), image(make([]byte, 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	if rows, err := Rows(dir); err != nil || len(rows) != 1 {
		t.Errorf("without a description: %v, %v", rows, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Rows(dir); err == nil || !strings.Contains(err.Error(), "add it again") {
		t.Errorf("error %v", err)
	}
}

// TestAddDebian packs a kernel of Debian that was fetched as Debian, RHEL, Fedora and Ubuntu would,
// and adds all.
func TestAddDebian(t *testing.T) {
	cached, _ := filepath.Glob(filepath.Join(usercache.Dir("kernels", ""), "images", "*-cloud-amd64_*")) // a good pattern
	cached = slices.DeleteFunc(cached, func(path string) bool { return strings.HasSuffix(path, ".sha256") })
	if len(cached) == 0 {
		t.Skip("no kernel of Debian is cached: 'make kernel-images' fetches some")
	}
	vmlinuz, err := os.ReadFile(cached[0])
	if err != nil {
		t.Skip(err)
	}
	debian, _, _ := strings.Cut(filepath.Base(cached[0]), "_")
	const rhel, fedora, ubuntu = "4.18.0-553.16.1.el8_10.x86_64", "6.11.4-301.fc41.x86_64", "5.15.0-91-generic"
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "local")
	distropkgtest.Package{Name: "linux-image-" + debian, Version: "1", Release: "1", Arch: "amd64", Files: []distropkgtest.File{
		file("/boot/config-"+debian, []byte(goodConfig)), file("/boot/vmlinuz-"+debian, vmlinuz),
		file("/lib/modules/"+debian+"/kernel/fs/ext4/ext4.ko", nil),
	}}.WriteDeb(t, filepath.Join(from, "image.deb"))
	distropkgtest.Package{Name: "kernel-core", Version: "4.18.0", Release: "553.16.1.el8_10", Arch: "x86_64", Packing: "zstd", Files: []distropkgtest.File{
		file("/lib/modules/"+rhel+"/config", []byte(goodConfig)), file("/lib/modules/"+rhel+"/vmlinuz", vmlinuz),
	}}.WriteRPM(t, filepath.Join(from, "core.rpm"))
	distropkgtest.Package{Name: "kernel-core", Version: "6.11.4", Release: "301.fc41", Arch: "x86_64", Packing: "zstd", Files: []distropkgtest.File{
		file("/usr/lib/modules/"+fedora+"/config", []byte(goodConfig)), file("/usr/lib/modules/"+fedora+"/vmlinuz", vmlinuz),
		{Name: "/usr/lib/modules/" + fedora + "/source", Body: []byte("/usr/src"), Link: true},
	}}.WriteRPM(t, filepath.Join(from, "fedora.rpm"))
	distropkgtest.Package{Name: "linux-image-unsigned-" + ubuntu, Version: "1", Release: "1", Arch: "amd64", Files: []distropkgtest.File{
		file("/boot/vmlinuz-"+ubuntu, vmlinuz),
	}}.WriteDeb(t, filepath.Join(from, "ubuntu.deb"))
	distropkgtest.Package{Name: "linux-modules-" + ubuntu, Version: "1", Release: "1", Arch: "amd64", Files: []distropkgtest.File{
		file("/boot/config-"+ubuntu, []byte(goodConfig)), file("/lib/modules/"+ubuntu+"/kernel/fs/a.ko", nil),
	}}.WriteDeb(t, filepath.Join(from, "modules.deb"))
	files := []string{cached[0]}
	for _, name := range []string{"image.deb", "core.rpm", "fedora.rpm", "ubuntu.deb", "modules.deb"} {
		files = append(files, filepath.Join(from, name))
	}
	added, err := Add(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	features := []string{"kprobes", "perf_events", "bpf", "btf"}
	want := []Added{
		{rhel, Kernel{rhel, "amd64", "el8", "generic", []string{"core.rpm"}, features, 0, "kernel"}},
		{debian, Kernel{debian, "amd64", "debian", "cloud", []string{filepath.Base(cached[0]), "image.deb"}, features, 1, "kernel"}},
		{fedora, Kernel{fedora, "amd64", "fc41", "generic", []string{"fedora.rpm"}, features, 0, "kernel"}},
		{ubuntu + "-amd64", Kernel{ubuntu, "amd64", "ubuntu", "generic", []string{"ubuntu.deb", "modules.deb"}, features, 1, "kernel"}},
	}
	slices.SortFunc(want, func(a, b Added) int { return strings.Compare(a.Release, b.Release) })
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, a := range added {
		if got, err := os.ReadFile(filepath.Join(dir, a.Name)); err != nil || !bytes.Equal(got, vmlinuz) {
			t.Errorf("%s: %d bytes of image, %v", a.Name, len(got), err)
		}
	}
	if at := binary.LittleEndian.Uint16(vmlinuz[0x20e:]); at == 0 {
		t.Error("the image does not name its release: the test shows less")
	}
}
