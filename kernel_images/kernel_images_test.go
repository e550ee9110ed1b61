package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
)

func TestCandidates(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("needs dpkg, to order versions")
	}
	var b strings.Builder
	for _, p := range []struct {
		name, version, arch string
		size                int
	}{
		{"linux-image-6.1.0-9-cloud-amd64", "6.1.90-1", "amd64", 27e6},
		{"linux-image-6.1.0-56-cloud-amd64", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.1.0-56-cloud-amd64-dbg", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.1.0-56-amd64", "6.1.192-2", "amd64", 70e6},
		{"linux-image-6.1.0-56-cloud-arm64", "6.1.192-2", "arm64", 21e6},
		{"linux-image-6.1-cloud-amd64", "6.1.192-2", "amd64", 27e6},
		{"linux-image-6.12.100+deb12-cloud-amd64", "6.12.100-1~deb12u1", "amd64", 27e6},
		{"linux-image-6.12.100+deb13-cloud-amd64", "6.12.100-1", "amd64", 27e6},
		{"linux-image-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 2000},
		{"linux-binary-unsigned-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
		{"linux-binary-7.2.6+deb13-cloud-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
		{"linux-binary-7.2.6+deb13-rt-amd64", "7.2.6-1~bpo13+1", "amd64", 14e6},
	} {
		fmt.Fprintf(&b, "Package: %s\nVersion: %s\nArchitecture: %s\nDescription: x\n Version: not this\nSize: %d\n\n", p.name, p.version, p.arch, p.size)
	}
	packages, err := debian.ParsePackages(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		row  catalogue.Row
		want []string
	}{
		{catalogue.Row{Series: "6.1", Flavour: "cloud", Arch: "amd64"}, []string{"linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-9-cloud-amd64"}},
		{catalogue.Row{Series: "6.1", Flavour: "generic", Arch: "amd64"}, []string{"linux-image-6.1.0-56-amd64"}},
		{catalogue.Row{Series: "6.1", Flavour: "cloud", Arch: "arm64"}, []string{"linux-image-6.1.0-56-cloud-arm64"}},
		{catalogue.Row{Series: "6.12", Flavour: "cloud", Arch: "amd64"}, []string{"linux-image-6.12.100+deb13-cloud-amd64", "linux-image-6.12.100+deb12-cloud-amd64"}},
		{catalogue.Row{Series: "7.2", Flavour: "cloud", Arch: "amd64"}, []string{"linux-binary-7.2.6+deb13-cloud-amd64", "linux-binary-unsigned-7.2.6+deb13-cloud-amd64"}},
		{catalogue.Row{Series: "newest", Flavour: "rt", Arch: "amd64"}, []string{"linux-binary-7.2.6+deb13-rt-amd64"}},
		{catalogue.Row{Series: "5.10", Flavour: "cloud", Arch: "amd64"}, nil},
	} {
		got, err := candidates(tt.row, packages)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s-%s-%s: %q, want %q", tt.row.Series, tt.row.Flavour, tt.row.Arch, names, tt.want)
		}
	}
	if got := releaseOf(debian.Package{Name: "linux-binary-unsigned-7.3.4+deb13-cloud-amd64"}); got != "7.3.4+deb13-cloud-amd64" {
		t.Errorf("got release %q", got)
	}
	if _, err := debian.ParsePackages(strings.NewReader("Package: x\nSize: many\n")); err == nil {
		t.Error("a size that is not a number is accepted")
	}
}

// buildDeb builds a .deb with the given files and symbolic links.
func buildDeb(t *testing.T, files map[string]string, links ...string) string {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb, to build a package")
	}
	root := t.TempDir()
	files["DEBIAN/control"] = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range links {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink("/etc/shadow", path)); err != nil {
			t.Fatal(err)
		}
	}
	deb := filepath.Join(t.TempDir(), "x.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", root, deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	return deb
}

func TestUnpack(t *testing.T) {
	big := strings.Repeat("module", 1<<20) // more than a pipe can hold
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"boot", map[string]string{"boot/vmlinuz-6.1.0": "image", "boot/config-6.1.0": "config", "lib/modules/big": big}, "image"},
		{"modules", map[string]string{"usr/lib/modules/7.2/vmlinuz": "image", "usr/lib/modules/7.2/config": "config"}, "image"},
		{"unsigned", map[string]string{"usr/lib/modules/7.3/vmlinuz.unsigned": "image"}, "image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := debian.Find(t.Context(), buildDeb(t, tt.files), imageFile); err != nil || string(got) != tt.want {
				t.Errorf("got image %q, error %v", got, err)
			}
		})
	}

	t.Run("no image", func(t *testing.T) {
		_, err := debian.Find(t.Context(), buildDeb(t, map[string]string{"usr/share/doc/x": "x"}), imageFile)
		if !errors.Is(err, debian.ErrNoFile) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("link", func(t *testing.T) {
		deb := buildDeb(t, map[string]string{"usr/share/doc/x": "x"}, "boot/vmlinuz-1")
		if got, err := debian.Find(t.Context(), deb, imageFile); !errors.Is(err, debian.ErrNoFile) {
			t.Errorf("got image %q, error %v", got, err)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		deb := buildDeb(t, map[string]string{"boot/vmlinuz-1": big})
		if err := os.Truncate(deb, 900); err != nil {
			t.Fatal(err)
		}
		if _, err := debian.Find(t.Context(), deb, imageFile); err == nil || errors.Is(err, debian.ErrNoFile) {
			t.Errorf("got error %v, want dpkg-deb's", err)
		}
	})
}

func TestCache(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := imageName("6.1.0-1", "1:6.1.1-1")
	if _, err := c.Store(name, []byte("image")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "amd64", "6.1-cloud")
	for range 2 { // the second time it exists
		if err := link(c.Path(name), path); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "image" {
		t.Errorf("through the link: got %q, error %v", b, err)
	}
	if got := c.replacement("gone"); got != "gone" {
		t.Errorf("an image without a replacement is replaced by %s", got)
	}
	if err := c.replace("gone", name); err != nil || c.replacement("gone") != name {
		t.Errorf("got replacement %s, error %v", c.replacement("gone"), err)
	}
}
