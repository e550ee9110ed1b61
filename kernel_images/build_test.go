package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/catalogue"
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

// TestRecipes: each row that is built has a recipe, with types in the file that the row names.
func TestRecipes(t *testing.T) {
	rows, err := catalogue.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		if !r.Built {
			continue
		}
		names = append(names, r.Name)
		if want := path.Base(r.Link()) + typesSuffix; r.BTFFile != want {
			t.Errorf("%s: its types are in %s, want %s", r.Name, r.BTFFile, want)
		}
	}
	variants := make(map[string]bool)
	for _, r := range recipes {
		if variants[r.variant()] {
			t.Errorf("%s: another recipe has the variant %s", r.name, r.variant())
		}
		variants[r.variant()] = true
		if !slices.Contains(names, r.name+"-"+r.arch) {
			t.Errorf("no row for the recipe %s", r.name)
		}
		// It can't be chosen: what selects it has to be on, or no kernel is built.
		if strings.Contains(r.config, "CONFIG_UPROBES=y") && !strings.Contains(r.config, "CONFIG_UPROBE_EVENTS=y") {
			t.Errorf("%s has CONFIG_UPROBES without CONFIG_UPROBE_EVENTS", r.name)
		}
	}
	if len(names) != len(recipes) {
		t.Errorf("%d rows are built, there are %d recipes", len(names), len(recipes))
	}
	got := recipe{config: "CONFIG_A=y\nCONFIG_AB=y\nCONFIG_C=n\n"}.but("x", "CONFIG_A=n", "CONFIG_D=y")
	if want := "CONFIG_AB=y\nCONFIG_C=n\nCONFIG_A=n\nCONFIG_D=y\n"; got.config != want {
		t.Errorf("configuration %q, want %q", got.config, want)
	}

	// What is built: all if that is asked for, else what is named in full.
	for _, tt := range []struct {
		build bool
		names []string
		want  int
	}{{true, []string{"odd/*"}, len(recipes)}, {false, []string{"odd/*"}, 0}, {false, []string{"odd/no-bpf", "nobtf-amd64"}, 2}} {
		n := 0
		for _, b := range builtRows(rows, tt.build, tt.names) {
			if b.build {
				n++
			}
		}
		if n != tt.want {
			t.Errorf("%v, %q: %d are built, want %d", tt.build, tt.names, n, tt.want)
		}
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
	noBPF := recipes[slices.IndexFunc(recipes, func(r recipe) bool { return r.name == "odd/no-bpf" })]
	stale := filepath.Join(dir, "amd64", "odd", "no-bpf")
	if err := link("/nowhere", stale); err != nil {
		t.Fatal(err)
	}
	if err := f.provideBuilt(t.Context(), []builtRow{{nobtf, true}, {noBPF, false}}, dir, false, &out); err != nil {
		t.Fatal(err)
	}
	if want := "nobtf-amd64: cached from linux-source-5.10 5.10.1-1\nodd/no-bpf-amd64: not built: 'make kernel-odd' does it, in some minutes\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if _, err := os.Lstat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link to the image of another recipe is still there: %v", err)
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
