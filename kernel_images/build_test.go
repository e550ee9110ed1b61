package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecipe(t *testing.T) {
	if !strings.Contains(nobtf.config, "\nCONFIG_DEBUG_INFO=n\n") || strings.Contains(nobtf.config, "CONFIG_DEBUG_INFO_BTF=y") {
		t.Error("nobtf.config: the kernel would have types")
	}
	other := nobtf
	other.config += "CONFIG_EXTRA=y\n"
	if nobtf.variant() == other.variant() {
		t.Error("another configuration, the same variant")
	}
	r := recipe{config: "# CONFIG_COMMENT=y\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=n\nCONFIG_D=y\nCONFIG_E=\"\"\n"}
	result := "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_E=\"\"\nCONFIG_F=y\n"
	if diff := cmp.Diff([]string{"CONFIG_C=n", "CONFIG_D=y"}, r.ignored(result)); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// What was built as the recipe says is linked and nothing else is done.
func TestBuiltBefore(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fetcher{cache: c, say: t.Logf}
	image := imageName("5.10.1", "5.10.1-1") + "_" + nobtf.variant()
	for name, text := range map[string]string{image: "image", image + typesSuffix: "types"} {
		if _, err := c.Store(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}

	t.Setenv("PATH", "") // what would build has no tools
	dir := t.TempDir()
	var out bytes.Buffer
	if err := f.provideBuilt(t.Context(), nobtf, dir, false, &out); err != nil {
		t.Fatal(err)
	}
	if want := "nobtf-amd64: cached from linux-source-5.10 5.10.1-1\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	for name, want := range map[string]string{"nobtf": "image", "nobtf.btf": "types"} {
		if b, err := os.ReadFile(filepath.Join(dir, "amd64", name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, error %v", name, b, err)
		}
	}

	changed := nobtf
	changed.config += "CONFIG_EXTRA=y\n"
	if got := f.builtBefore(changed); got != "" {
		t.Errorf("another configuration: %s", got)
	}
	if err := os.WriteFile(c.Path(image+typesSuffix), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := f.builtBefore(nobtf); got != "" {
		t.Errorf("damaged types: %s", got)
	}
}

func TestBuildEnv(t *testing.T) {
	got := buildEnv([]string{"PATH=/bin", "MAKEFLAGS= -j4 -- V=1", "ARCH=arm64", "LC_ALL=de_DE", "HOME=/"})
	if want := []string{"LC_ALL=C", "PATH=/bin", "HOME=/"}; !slices.Equal(got, want) {
		t.Errorf("environment %v, want %v", got, want)
	}
}
