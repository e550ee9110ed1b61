package matrix

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// TestKey: whatever a guest's outcome depends on changes its key.
func TestKey(t *testing.T) {
	base := Guest{Part: PartTests, Kernel: Kernel{Name: "k", Arch: "amd64", SHA256: "s"}, BTF: BTFPresent, Backends: Backends}
	key := func(harness, image string, m Machine, change func(*Guest)) string {
		g := base
		if change != nil {
			change(&g)
		}
		own, others, _ := strings.Cut(harness, " ")
		return (&Cache{Harness: map[string]string{"amd64": own, "arm64": others}}).Key(m, g, image)
	}
	keys := map[string]string{
		"base":     key("h", "i", Machine{}, nil),
		"harness":  key("H", "i", Machine{}, nil),
		"image":    key("h", "I", Machine{}, nil),
		"machine":  key("h", "i", Machine{Mem: 1024}, nil),
		"kernel":   key("h", "i", Machine{}, func(g *Guest) { g.Kernel.SHA256 = "S" }),
		"BTF":      key("h", "i", Machine{}, func(g *Guest) { g.BTF = BTFHidden }),
		"backends": key("h", "i", Machine{}, func(g *Guest) { g.Backends = Backends[:1] }),
		"tests":    key("h", "i", Machine{}, func(g *Guest) { g.Tests = []string{"t"} }),
		"claims":   key("h", "i", Machine{}, func(g *Guest) { g.Kernel.Features = []string{"bpf"} }),
		"env":      key("h", "i", Machine{}, func(g *Guest) { g.Env = []string{"A=1"} }),
	}
	seen := make(map[string]string)
	for what, k := range keys {
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[k] = what
	}
	if key("h", "i", Machine{}, func(g *Guest) { g.Kernel.Path = "elsewhere" }) != keys["base"] {
		t.Error("the path of the kernel changes the key")
	}
	if key("h x", "i", Machine{}, nil) != keys["base"] {
		t.Error("the digest of another architecture changes the key")
	}
}

// writeKernel writes a bzImage without a kernel in it, and returns its path.
func writeKernel(t *testing.T, path string) string {
	t.Helper()
	image := make([]byte, 1024)
	copy(image[0x202:], "HdrS")
	if err := os.WriteFile(path, image, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunner runs guests with a script for qemu: guests that passed run again only on request.
func TestRunner(t *testing.T) {
	dir := t.TempDir()
	line := func(rec any) string {
		b, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	// The records go to the first file that qemu inherits.
	script := "#!/bin/sh\necho run >>" + dir + "/runs\nwhile [ $1 != -kernel ]; do shift; done\necho \"[    1.000000] hello of $2\"\n" +
		"cat >&3 <<'END'\n" + line(record.Hello{Kernel: "6.1"}) + "\n" + line(record.Plan{Jobs: []record.Job{job("t_a")}}) + "\n" +
		line(record.Start{Test: "t_a", Backend: "ebpf"}) + "\n" + line(result("t_a", record.Pass)) + "\nEND\n" +
		"case $2 in *bad) exit 1;; esac\n" + "echo '" + line(record.End{}) + "' >&3\n"
	qemu := filepath.Join(dir, "qemu")
	if err := os.WriteFile(qemu, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	cache, err := OpenCache(filepath.Join(dir, "cache"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var guests []Guest
	for _, name := range []string{"a", "b", "bad"} {
		guests = append(guests, Guest{Part: PartTests, Kernel: Kernel{Name: name, Path: writeKernel(t, filepath.Join(dir, name)), SHA256: name}, BTF: BTFPresent, Backends: Backends[:1], Image: image})
	}
	runs := 0
	for i, tt := range []struct {
		fresh bool
		runs  int
	}{{false, 3}, {false, 1}, {true, 3}} {
		out := filepath.Join(dir, fmt.Sprint("out", i))
		r := Runner{Machine: Machine{QEMU: qemu}, Jobs: 2, Dir: out, Cache: cache, Fresh: tt.fresh, Out: io.Discard}
		outcomes, err := r.Run(context.Background(), guests)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []record.State{record.Pass, record.Pass, record.Lost} {
			if o := outcomes[i]; o.State != want || o.Guest != guests[i].Name() {
				t.Errorf("%s: %s (%s), want %s", o.Guest, o.State, o.Reason, want)
			}
			if b, err := os.ReadFile(filepath.Join(out, outcomes[i].Log)); err != nil || !strings.Contains(string(b), "hello of "+guests[i].Kernel.Path) {
				t.Errorf("got console %q, error %v", b, err)
			}
		}
		b, err := os.ReadFile(dir + "/runs")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "run") - runs; n != tt.runs {
			t.Errorf("round %d ran %d guests, want %d", i, n, tt.runs)
		}
		runs = strings.Count(string(b), "run")
	}
	// Old entries are removed; recently used ones stay.
	old := time.Now().Add(-2 * maxAge)
	entries, _ := os.ReadDir(cache.dir)
	for _, e := range entries[:1] {
		os.Chtimes(filepath.Join(cache.dir, e.Name()), old, old)
	}
	if _, err := OpenCache(cache.dir, nil); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadDir(cache.dir); len(after) != len(entries)-1 {
		t.Errorf("got %d entries, want one less than %d", len(after), len(entries))
	}
}
