package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// image returns the smallest arm64 Image with contents.
func image(content ...[]byte) []byte {
	head := make([]byte, 64)
	copy(head[56:], "ARM\x64")
	return append(head, bytes.Join(content, nil)...)
}

func banner(release string) []byte { return []byte("Linux version " + release + " (a@b)\x00") }

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAdd(t *testing.T) {
	archive, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	types := archive.BTF(archive.Kernels()[0])
	from := t.TempDir()
	const rhel, ubuntu = "5.14.0-427.13.1.el9_4.aarch64", "5.15.0-91-generic"
	for name, content := range map[string][]byte{
		"modules/" + rhel + "/vmlinuz":        image(banner(rhel), types),
		"ubuntu":                              image(banner(ubuntu)),
		"nameless":                            image(types),
		"modules/6.6.8-arch1/modules.builtin": nil,
		"modules/$(x)/modules.builtin":        nil,
		"text":                                []byte("text"),
		"empty":                               nil,
	} {
		write(t, filepath.Join(from, name), content)
	}
	if err := unix.Mkfifo(filepath.Join(from, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		image, modules string
		want           Added
		row            catalogue.Row
		err            string
	}{
		{"modules/" + rhel + "/vmlinuz", "modules/" + rhel,
			Added{rhel, Kernel{rhel, "arm64", true}},
			catalogue.Row{Features: []string{"btf"}, Unarchived: true}, ""},
		{"ubuntu", "", Added{ubuntu + "-arm64", Kernel{ubuntu, "arm64", false}},
			catalogue.Row{NoBTF: true, Unarchived: true}, ""},
		{"nameless", "modules/6.6.8-arch1", Added{"6.6.8-arch1-arm64", Kernel{Release: "6.6.8-arch1", Arch: "arm64", BTF: true}},
			catalogue.Row{Features: []string{"btf"}, Unarchived: true}, ""},
		{"nameless", "", Added{}, catalogue.Row{}, "does not contain its release"},
		{"nameless", "modules/$(x)", Added{}, catalogue.Row{}, "does not contain its release"},
		{"ubuntu", "modules/" + rhel, Added{}, catalogue.Row{}, "want the modules of " + ubuntu},
		{"text", "", Added{}, catalogue.Row{}, "no kernel image"},
		{"empty", "", Added{}, catalogue.Row{}, "no kernel image"},
		{"missing", "", Added{}, catalogue.Row{}, "no such file"},
		{"fifo", "", Added{}, catalogue.Row{}, "not a regular file"},
		{"modules", "", Added{}, catalogue.Row{}, "not a regular file"},
	} {
		dir := filepath.Join(t.TempDir(), "local")
		modules := tt.modules
		if modules != "" {
			modules = filepath.Join(from, modules)
		}
		for range 2 { // again, in place of the first
			added, err := Add(dir, filepath.Join(from, tt.image), modules)
			rows, rowsErr := Rows(dir)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || rows != nil {
					t.Errorf("%s: error %v, want one with %q; rows %v", tt.image, err, tt.err, rows)
				}
				continue
			}
			if diff := cmp.Diff(tt.want, added); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.image, err, diff)
			}
			want := tt.row
			want.Name, want.Arch, want.Series, want.Default, want.GoTests = Prefix+tt.want.Name, "arm64", tt.want.Release, true, true
			if diff := cmp.Diff([]catalogue.Row{want}, rows); rowsErr != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.image, rowsErr, diff)
			}
		}
		if tt.row.NoBTF {
			write(t, filepath.Join(dir, tt.want.Name+".btf"), types)
			rows, err := Rows(dir)
			if err != nil || rows[0].NoBTF || rows[0].BTFFile != tt.want.Name+".btf" {
				t.Errorf("%s with a file of types: got %+v, error %v", tt.image, rows, err)
			}
		}
	}
}

// The architecture of an image in gzip is in its description.
func TestGzip(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine"), []byte("\x1f\x8b"))
	write(t, filepath.Join(dir, "mine.json"), []byte(`{"release":"6.6.6","arch":"amd64"}`))
	if rows, err := Rows(dir); err != nil || len(rows) != 1 || rows[0].Arch != "amd64" {
		t.Errorf("got rows %v, error %v", rows, err)
	}
}

func TestDescription(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine"), image(make([]byte, 100)))
	if rows, err := Rows(dir); err != nil || len(rows) != 1 {
		t.Errorf("without a description: got %v, error %v", rows, err)
	}
	write(t, filepath.Join(dir, "mine.json"), []byte("{"))
	if _, err := Rows(dir); err == nil || !strings.Contains(err.Error(), "add it again") {
		t.Errorf("got error %v", err)
	}
}
