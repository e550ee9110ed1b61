package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/harness/debian"
)

func TestSpread(t *testing.T) {
	var all []debian.Package
	for _, v := range []string{"9", "8", "7", "6", "5", "4", "3"} {
		all = append(all, debian.Package{Version: v})
	}
	for _, tt := range []struct {
		packages, n int
		want        string
	}{
		{7, 1, "9876543"},
		{7, 2, "987 3456"},
		{7, 3, "98 76 345"},
		{2, 3, "9 8"},
		{1, 3, "9"},
		{0, 3, ""},
	} {
		var groups []string
		for _, g := range spread(all[:tt.packages], tt.n) {
			var b strings.Builder
			for _, p := range g {
				b.WriteString(p.Version)
			}
			groups = append(groups, b.String())
		}
		if got := strings.Join(groups, " "); got != tt.want {
			t.Errorf("%d packages, %d wanted: %q, want %q", tt.packages, tt.n, got, tt.want)
		}
	}
	if len(all) != 7 || all[6].Version != "3" {
		t.Error("the candidates were changed")
	}
}

func TestSurveyGroups(t *testing.T) {
	if err := debian.CheckTools(); err != nil {
		t.Skip(err)
	}
	packages := []debian.Package{
		{Name: "linux-image-6.1.0-9-cloud-amd64", Version: "6.1.27-1", Arch: "amd64", Size: 27e6},
		{Name: "linux-image-6.1.0-56-cloud-amd64", Version: "6.1.192-2", Arch: "amd64", Size: 27e6},
		{Name: "linux-image-6.1.0-56-amd64", Version: "6.1.192-2", Arch: "amd64", Size: 27e6},
		{Name: "linux-image-6.1.0-56-cloud-arm64", Version: "6.1.192-2", Arch: "arm64", Size: 27e6},
		{Name: "linux-image-7.2.6+deb13-cloud-amd64", Version: "7.2.6-1", Arch: "amd64", Size: 2000},
		{Name: "linux-headers-6.1.0-56-amd64", Version: "6.1.192-2", Arch: "amd64", Size: 27e6},
	}
	for _, tt := range []struct {
		each    int
		pattern string
		want    []string
	}{
		{1, "", []string{"6.1.0-56-cloud-amd64", "6.1.0-56-cloud-arm64", "6.1.0-56-amd64"}},
		{2, "", []string{"6.1.0-56-cloud-amd64", "6.1.0-9-cloud-amd64", "6.1.0-56-cloud-arm64", "6.1.0-56-amd64"}},
		{1, "*-arm64", []string{"6.1.0-56-cloud-arm64"}},
	} {
		s := &survey{each: tt.each, pattern: tt.pattern}
		groups, err := s.groups(packages)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range groups {
			got = append(got, releaseOf(g[0]))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d of %q: %q, want %q", tt.each, tt.pattern, got, tt.want)
		}
	}
	if _, err := (&survey{each: 1, pattern: "["}).groups(packages); err == nil {
		t.Error("a bad pattern: no error")
	}
}

// TestTypesDir keeps types and nothing else: not those of an image without any, and no half of a
// file.
func TestTypesDir(t *testing.T) {
	d := &typesDir{t.TempDir()}
	p := debian.Package{Name: "linux-binary-unsigned-7.3.4+deb13-cloud-amd64", Version: "7.3.4-1", Arch: "amd64", Size: smallestImage}
	want := filepath.Join(d.dir, "debian", "7.3", "amd64", "7.3.4+deb13-cloud-amd64.btf.zst")
	if got := d.path(p); got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	header := append([]byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0}, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4, 0, 0)
	image := append(bytes.Repeat([]byte{0}, 64), header...)
	copy(image[56:], "ARM\x64")
	if err := d.keep(context.Background(), p, buildDeb(t, map[string]string{"boot/vmlinuz-7": string(image[:70])})); err == nil || d.has(p) {
		t.Errorf("an image without types: error %v", err)
	}
	if err := d.keep(context.Background(), p, buildDeb(t, map[string]string{"boot/vmlinuz-7": string(image)})); err != nil || !d.has(p) {
		t.Errorf("error %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(want))
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, error %v", files, err)
	}
}
