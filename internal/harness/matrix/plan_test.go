package matrix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// images makes a directory of images as kernel_images does, with a local kernel.
func images(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bzImage := make([]byte, 1024)
	copy(bzImage[0x202:], "HdrS")
	image := func(n byte) []byte { return append(slices.Clone(bzImage), n) }
	arm := make([]byte, 1024)
	copy(arm[56:], "ARM\x64")
	for name, content := range map[string][]byte{
		"amd64/5.10-cloud": image(1), "amd64/6.1-cloud": image(2), "amd64/newest-cloud": image(2), "arm64/6.1-cloud": arm,
		"local/mine": image(4), "local/.hidden": nil,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var rows = []catalogue.Row{
	{Name: "5.10-cloud-amd64", Arch: "amd64"},
	{Name: "6.1-cloud-amd64", Arch: "amd64", Default: true},
	{Name: "6.1-cloud-arm64", Arch: "arm64"},
	{Name: "newest-cloud-amd64", Arch: "amd64"}, // the same image
	{Name: "6.12-cloud-amd64", Arch: "amd64"},   // not fetched
	{Name: "odd/1-cpu-amd64", Arch: "amd64", Image: "5.10-cloud-amd64", Odd: catalogue.Odd{CPUs: 1}},
	{Name: "odd/4-cpus-amd64", Arch: "amd64", Image: "5.10-cloud-amd64", Odd: catalogue.Odd{CPUs: 4}},
}

func TestFindKernels(t *testing.T) {
	dir := images(t)
	both := []string{"amd64", "arm64"}
	for _, tt := range []struct {
		arches, patterns []string
		want             string
		err              string
	}{
		{[]string{"amd64"}, nil, "6.1-cloud-amd64 local/mine", ""},
		{both, []string{"6.1-*"}, "6.1-cloud-amd64 6.1-cloud-arm64", ""},
		{[]string{"arm64"}, []string{"6.1-cloud"}, "6.1-cloud-arm64", ""},
		{[]string{"amd64"}, []string{"newest-cloud", "6.1-cloud"}, "6.1-cloud-amd64", ""},
		{[]string{"amd64"}, []string{"n*"}, "newest-cloud-amd64", ""},
		{both, []string{"local/*", "5.10-cloud-amd64"}, "5.10-cloud-amd64 local/mine", ""},
		{both, []string{"odd/*", "5.10-cloud"}, "5.10-cloud-amd64 odd/1-cpu-amd64 odd/4-cpus-amd64", ""},
		{both, []string{"6.12-cloud"}, "", "make kernel-images"},
		{both, []string{"7*"}, "", `no kernel "7*"`},
		{both, []string{"["}, "", "syntax error"},
	} {
		kernels, err := FindKernels(dir, rows, tt.arches, tt.patterns)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error %v, want one with %q", tt.patterns, err, tt.err)
			}
			continue
		}
		var names []string
		for _, k := range kernels {
			names = append(names, k.Name)
			if k.GoTests == strings.HasPrefix(k.Name, "odd/") && tt.patterns != nil {
				t.Errorf("%s: got Go tests %v", k.Name, k.GoTests)
			}
		}
		if err != nil || strings.Join(names, " ") != tt.want {
			t.Errorf("%q: %q, %v; want %s", tt.patterns, names, err, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "local", "notes"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := FindKernels(dir, rows, both, nil); err == nil || !strings.Contains(err.Error(), "not a kernel image") {
		t.Errorf("a local file that is no kernel: error %v", err)
	}
}

func TestPlan(t *testing.T) {
	known := Backends
	defer func() { Backends = known }()
	Backends = append(slices.Clone(known[:3]), Backend{Name: "further", Option: "--further"})
	kernels := []Kernel{{Name: "a", Arch: "amd64", Path: "k/a", GoTests: true}, {Name: "local/n", Arch: "amd64", Path: "k/n", BTFFile: "n.btf"}}
	image := map[string]string{"amd64": "i.gz"}
	for _, tt := range []struct {
		name string
		s    Selection
		want []string // the repro lines
		err  string
	}{
		{"all", Selection{}, []string{
			"./krun.sh i.gz k/a quark-test -b -k -c",
			"KRUN_APPEND=quark.hide_btf=1 ./krun.sh i.gz k/a quark-test -b -k --types",
			"KRUN_APPEND=quark.env.QUARK_BTF_PATH=/n.btf ./krun.sh i.gz k/n quark-test -b -k -c",
		}, ""},
		{"one backend that needs no types", Selection{Backends: []string{"c"}, Tests: []string{"t_exit*"}}, []string{
			"./krun.sh i.gz k/a quark-test -c 't_exit*'",
			"KRUN_APPEND=quark.env.QUARK_BTF_PATH=/n.btf ./krun.sh i.gz k/n quark-test -c 't_exit*'",
		}, ""},
		{"all with types hidden, too", Selection{Tests: []string{"*"}}, []string{
			"./krun.sh i.gz k/a quark-test -b -k -c",
			"KRUN_APPEND=quark.hide_btf=1 ./krun.sh i.gz k/a quark-test -b -k '*'",
			"KRUN_APPEND=quark.env.QUARK_BTF_PATH=/n.btf ./krun.sh i.gz k/n quark-test -b -k -c",
		}, ""},
		{"hidden", Selection{Backends: []string{"kprobe"}, BTF: []BTF{BTFHidden}, Env: []string{"A=1", "B=2"}}, []string{
			"KRUN_APPEND='quark.hide_btf=1 quark.env.A=1 quark.env.B=2' ./krun.sh i.gz k/a quark-test -k --types",
		}, ""},
		{"Go tests", Selection{Packages: []string{".", "./backends/kprobe", "./backends/ebpf"}, BTF: []BTF{BTFPresent}, Backends: []string{"k"}}, []string{
			"./krun.sh i.gz k/a quark-test -k",
			"make guest-test PKG='. ./backends/kprobe' KERNELS=a",
		}, ""},
		{"Go tests on the kernels that have them", Selection{Packages: []string{"."}, BTF: []BTF{BTFPresent, BTFFile}}, []string{
			"./krun.sh i.gz k/a quark-test -b -k -c",
			"make guest-test PKG=. KERNELS=a",
			"KRUN_APPEND=quark.env.QUARK_BTF_PATH=/n.btf ./krun.sh i.gz k/n quark-test -b -k -c",
		}, ""},
		{"some Go tests", Selection{Packages: []string{"."}, Tests: []string{"quark.Test*"}}, []string{
			"make guest-test PKG=. KERNELS=a",
			"make guest-test PKG=. KERNELS=local/n",
		}, ""},
		{"no Go tests", Selection{Packages: []string{"."}, Tests: []string{"t_x"}, Backends: []string{"c"}, BTF: []BTF{BTFPresent}}, []string{
			"./krun.sh i.gz k/a quark-test -c t_x",
		}, ""},
		{"command", Selection{Packages: []string{"."}, Command: []string{"a", "b c"}, Keep: []string{"/tmp/x"}}, []string{
			"KRUN_APPEND=quark.keep=/tmp/x ./krun.sh i.gz k/a a 'b c'",
			"KRUN_APPEND='quark.env.QUARK_BTF_PATH=/n.btf quark.keep=/tmp/x' ./krun.sh i.gz k/n a 'b c'",
		}, ""},
		{"bad pattern", Selection{Tests: []string{"["}}, nil, "syntax error"},
		{"none", Selection{Backends: []string{"c"}, BTF: []BTF{BTFHidden}}, nil, "nothing to run"},
		{"unknown", Selection{Backends: []string{"x"}}, nil, `unknown backend "x": want one of ebpf (b), kprobe (k), cnproc (c), further`},
		{"one by name alone", Selection{Backends: []string{"further", "c"}, BTF: []BTF{BTFPresent}}, []string{
			"./krun.sh i.gz k/a quark-test -c --further",
		}, ""},
	} {
		guests, err := Plan(kernels, tt.s, image)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.err)
			}
			continue
		}
		var got []string
		for _, g := range guests {
			got = append(got, g.Repro(""))
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	guests, err := Plan(kernels, Selection{}, image)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := guests[1].Repro("t_x"), "KRUN_APPEND=quark.hide_btf=1 ./krun.sh i.gz k/a quark-test -b -k t_x"; got != want {
		t.Errorf("repro of a cell %q, want %q", got, want)
	}
	g := Guest{Part: PartGo, Kernel: Kernel{Name: "6.1-cloud-vax", Arch: "vax"}, Packages: []string{".", "./backends/kprobe"}, Env: []string{"A=1"}}
	if got, want := g.Repro("kprobe.TestX"), "make guest-test A=1 GOARCH=vax PKG=./backends/kprobe KERNELS=6.1-cloud RUN='^TestX$$'"; got != want {
		t.Errorf("repro of a Go test %q, want %q", got, want)
	}
	if _, err := Plan(kernels, Selection{}, nil); err == nil {
		t.Error("without initramfs: got no error")
	}
}

// TestPlanLocal: types are hidden if other types would replace them, or on request.
func TestPlanLocal(t *testing.T) {
	kernels := []Kernel{
		{Name: "local/rhel", Arch: "amd64", Path: "k/r", Unarchived: true}, {Name: "local/none", Arch: "amd64", Path: "k/n", NoBTF: true, Unarchived: true},
		{Name: "local/mine", Arch: "amd64", Path: "k/m"},
	}
	for _, tt := range []struct {
		btf  []BTF
		want string
	}{
		{nil, "local/rhel local/none local/mine local/mine-hidden"},
		{[]BTF{BTFHidden}, "local/rhel-hidden local/mine-hidden"},
		{[]BTF{BTFPresent}, "local/rhel local/none local/mine"},
	} {
		guests, err := Plan(kernels, Selection{BTF: tt.btf}, map[string]string{"amd64": "i.gz"})
		var names []string
		for _, g := range guests {
			names = append(names, g.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.btf, got, err, tt.want)
		}
	}
}

// TestShard: every guest is in one shard, whatever their number.
func TestShard(t *testing.T) {
	var guests []Guest
	for i := range 7 {
		guests = append(guests, Guest{Kernel: Kernel{Name: string(rune('a' + i))}, Backends: Backends[:1+i%2]})
	}
	for n := 1; n <= 9; n++ {
		count := make(map[string]int)
		for part := 1; part <= n; part++ {
			for _, g := range Shard(guests, part, n) {
				count[g.Name()]++
			}
		}
		for _, g := range guests {
			if count[g.Name()] != 1 {
				t.Errorf("of %d parts, %d contain guest %s", n, count[g.Name()], g.Name())
			}
		}
	}
}

// TestOddMachines checks the arguments and tests of odd machines.
func TestOddMachines(t *testing.T) {
	kernels := []Kernel{
		{Name: "odd/4-cpus-amd64", Arch: "amd64", Path: "k/a", Odd: catalogue.Odd{CPUs: 4, Append: []string{"x=1"}, Env: []string{"A=1"}}},
	}
	all := Selection{Packages: []string{".", "./backends/ebpf"}}
	some := all
	some.Tests = []string{"quark.TestX"}
	ebpf := Selection{Backends: []string{"ebpf"}}
	const four = "KRUN_APPEND='quark.env.A=1 x=1' KRUN_SMP=4 ./krun.sh i.gz k/a quark-test -b"
	for _, tt := range []struct {
		s    Selection
		want []string
	}{
		{all, []string{four + " -k -c"}},
		{ebpf, []string{four}},
		{some, []string{"make guest-test PKG='. ./backends/ebpf' KERNELS=odd/4-cpus"}},
	} {
		guests, err := Plan(kernels, tt.s, map[string]string{"amd64": "i.gz"})
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, g := range guests {
			got = append(got, g.Repro(""))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v:\n%s\nwant\n%s", tt.s, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
