package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// localPrefix begins the names of kernels that are in no catalogue but in the images' local
// directory.
const localPrefix = "local/"

// FindKernels returns the kernels of the architectures given that match any of the patterns, in the
// catalogue's order, then the local ones in that of their names, each image once. A pattern is of a
// whole name (6.1-cloud-amd64) or of one without its architecture (6.1-cloud); without a pattern
// the catalogue's default rows are taken, and all local kernels. dir is that of the images.
func FindKernels(dir string, rows []catalogue.Row, arches, patterns []string) ([]Kernel, error) {
	wanted := catalogue.NewPatterns(patterns)
	local, err := localKernels(filepath.Join(dir, "local"))
	if err != nil {
		return nil, err
	}
	var kernels []Kernel
	for _, r := range append(slices.Clone(rows), local...) {
		if !slices.Contains(arches, r.Arch) {
			continue
		}
		if ok, err := wanted.Match(r); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		k := Kernel{Name: r.Name, Arch: r.Arch, Path: filepath.Join(dir, r.Link()), BTFFile: r.BTFFile, Features: r.Features}
		if strings.HasPrefix(r.Name, localPrefix) {
			k.Path = filepath.Join(dir, r.Name)
		}
		k.SHA256, err = FileDigest(k.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no image of kernel %s: 'make kernel-images' fetches it", k.Name)
		} else if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		// What two rows have is run under the name of the first.
		if !slices.ContainsFunc(kernels, func(other Kernel) bool { return other.SHA256 == k.SHA256 && other.BTFFile == k.BTFFile }) {
			kernels = append(kernels, k)
		}
	}
	if bad := wanted.Unused(); bad != "" {
		return nil, fmt.Errorf("no kernel %q of %s in the catalogue (go run ./kernel_images -l lists it) or in %s",
			bad, strings.Join(arches, " or "), filepath.Join(dir, "local"))
	}
	return kernels, nil
}

// localKernels returns a row for each image in a directory, which need not be there. A file that is
// no image is an error: whoever put it there expects it to be tested.
func localKernels(dir string) ([]catalogue.Row, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for local kernels: %w", err)
	}
	var rows []catalogue.Row
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		arch, err := imageArch(path)
		if err != nil {
			return nil, fmt.Errorf("local kernel %s: %w", path, err)
		}
		rows = append(rows, catalogue.Row{Name: localPrefix + e.Name(), Arch: arch, Default: true})
	}
	return rows, nil
}

func imageArch(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	arch := vmlinuz.Arch(bytes.Clone(head[:n]))
	if arch == "" {
		return "", errors.New("it is no kernel image: x86 bzImage or vmlinux, or arm64 Image is wanted; remove it")
	}
	return arch, nil
}

// Selection says what to run on each kernel. Its zero value runs all of quark-test.
type Selection struct {
	Backends []string // names or letters; none: all
	BTF      []BTF    // ways of having types; none: all

	// Tests are patterns; none: all, but with types hidden those of what is read by them. A
	// pattern with a dot, as in kprobe.Test*, is of the Go tests; another is of quark-test's,
	// and "*" of both.
	Tests []string

	Packages []string // whose Go tests run, too, as ./DIR
	Command  []string // to run instead of any tests
	Keep     []string // files that the command makes and the guest hands out
	Env      []string // NAME=VALUE, for the tests or the command
	Wrap     []string // a command that runs quark-test
}

// Images are the initramfs of an architecture.
type Images struct {
	Base string
	Go   string // the same with the binaries of Go tests
}

// Plan returns the guests for kernels: for quark-test one as it is with all backends, and one with
// its types hidden with those backends that need types; for the Go tests of packages one as it is;
// or just one for a command.
func Plan(kernels []Kernel, s Selection, images map[string]Images) ([]Guest, error) {
	chosen, err := s.backends()
	if err != nil {
		return nil, err
	}
	quarkTest, goTests, err := s.tests()
	if err != nil {
		return nil, err
	}
	var guests []Guest
	for _, k := range kernels {
		image, ok := images[k.Arch]
		if !ok {
			return nil, fmt.Errorf("kernel %s: no initramfs for %s was given", k.Name, k.Arch)
		}
		ways := []BTF{BTFPresent, BTFHidden}
		if k.BTFFile != "" {
			ways = []BTF{BTFFile}
		}
		for _, way := range ways {
			if !s.wants(way) {
				continue
			}
			g := Guest{Kernel: k, BTF: way, Part: PartTests, Env: s.Env, Keep: s.Keep, Image: image.Base}
			if len(s.Command) > 0 {
				// With types hidden only where that is asked for by name.
				if way != BTFHidden || len(s.BTF) > 0 {
					g.Part, g.Command = PartCommand, s.Command
					guests = append(guests, g)
				}
				continue
			}
			if quarkTest != nil {
				if g, ok := g.forTests(quarkTest, chosen, s.Wrap); ok {
					guests = append(guests, g)
				}
			}
			if packages := s.packages(chosen); goTests != nil && len(packages) > 0 && way != BTFHidden {
				g.Part, g.Packages, g.Tests, g.Image = PartGo, packages, goTests, image.Go
				guests = append(guests, g)
			}
		}
	}
	if len(guests) == 0 {
		return nil, errors.New("nothing to run: no kernel, backend, test and way of having types fit together")
	}
	return guests, nil
}

// forTests makes the guest one for quark-test, if any of the backends has tests with the guest's
// types.
func (g Guest) forTests(patterns []string, chosen []Backend, wrap []string) (Guest, bool) {
	g.Tests, g.Wrap = patterns, wrap
	if g.BTF != BTFHidden && slices.Contains(g.Tests, "*") {
		g.Tests = nil // the same command, the results of which may be known
	}
	for _, b := range chosen {
		if g.BTF != BTFHidden || b.needsTypes() {
			g.Backends = append(g.Backends, b)
		}
	}
	return g, len(g.Backends) > 0
}

// tests returns the patterns of quark-test's tests and of the Go tests: nil for none of them, empty
// for all.
func (s Selection) tests() (quarkTest, goTests []string, err error) {
	if len(s.Tests) == 0 {
		return []string{}, []string{}, nil
	}
	for _, p := range s.Tests {
		if _, err := path.Match(p, ""); err != nil {
			return nil, nil, fmt.Errorf("pattern %q: %w", p, err)
		}
		switch {
		case p == "*":
			quarkTest, goTests = append(quarkTest, p), []string{}
		case !strings.Contains(p, "."):
			quarkTest = append(quarkTest, p)
		case goTests == nil || len(goTests) > 0:
			goTests = append(goTests, p)
		}
	}
	return quarkTest, goTests, nil
}

// packages returns those of the chosen backends, and those that are of no backend.
func (s Selection) packages(chosen []Backend) (list []string) {
	for _, p := range s.Packages {
		b := BackendOf(p)
		if b == NoBackend || slices.ContainsFunc(chosen, func(c Backend) bool { return c.Name == b }) {
			list = append(list, p)
		}
	}
	return list
}

// BackendOf returns the backend whose package it is, or NoBackend.
func BackendOf(pkg string) string {
	for _, b := range Backends {
		if path.Base(pkg) == b.Name {
			return b.Name
		}
	}
	return NoBackend
}

// needsTypes reports whether it makes a difference to the backend where the kernel's types come
// from.
func (b Backend) needsTypes() bool { return b.Name != "cnproc" }

func (s Selection) backends() ([]Backend, error) {
	if len(s.Backends) == 0 {
		return Backends, nil
	}
	var chosen []Backend
	for _, b := range Backends {
		for _, name := range s.Backends {
			if name == b.Name || "-"+name == b.Option {
				chosen = append(chosen, b)
				break
			}
		}
	}
	for _, name := range s.Backends {
		known := false
		for _, b := range Backends {
			known = known || name == b.Name || "-"+name == b.Option
		}
		if !known {
			return nil, fmt.Errorf("unknown backend %q: ebpf (b), kprobe (k) and cnproc (c) are known", name)
		}
	}
	return chosen, nil
}

func (s Selection) wants(way BTF) bool {
	for _, w := range s.BTF {
		if w == way {
			return true
		}
	}
	return len(s.BTF) == 0
}

// longestFirst orders guests for a pool of workers: those that took long first, and those that
// never ran before all others, for nobody knows. Equal ones keep their order.
func longestFirst(guests []Guest, took map[string]int64) []int {
	order := make([]int, len(guests))
	for i := range order {
		order[i] = i
	}
	key := func(i int) int64 {
		if ms, ok := took[guests[i].Name()]; ok {
			return ms
		}
		return 1 << 62
	}
	sort.SliceStable(order, func(a, b int) bool { return key(order[a]) > key(order[b]) })
	return order
}

// Shard returns the part of n (from 1) of the guests, so that each guest is in one part. Those of a
// kind, which take about as long as each other, are dealt out first.
func Shard(guests []Guest, part, n int) []Guest {
	dealt := append([]Guest(nil), guests...)
	sort.SliceStable(dealt, func(i, j int) bool { return len(dealt[i].Backends) > len(dealt[j].Backends) })
	var list []Guest
	for i, g := range dealt {
		if i%n == part-1 {
			list = append(list, g)
		}
	}
	return list
}
