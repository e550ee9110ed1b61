package matrix

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/local"
)

// FindKernels returns the kernels of the given architectures that match any of the patterns: first
// the catalogue's in its order, then local kernels by name, each image once. A pattern matches a
// name with its architecture (6.1-cloud-amd64) or without it (6.1-cloud). Without patterns it
// returns the catalogue's default rows and all local kernels. dir has the images.
func FindKernels(dir string, rows []catalogue.Row, arches, patterns []string) ([]Kernel, error) {
	added, err := local.Rows(filepath.Join(dir, "local"))
	if err != nil {
		return nil, err
	}
	selected, err := catalogue.Select(append(slices.Clone(rows), added...), arches, patterns)
	if err != nil {
		return nil, fmt.Errorf("find kernels of %s, including those in %s: %w", strings.Join(arches, " and "), filepath.Join(dir, "local"), err)
	}
	var kernels []Kernel
	for _, r := range selected {
		k := Kernel{Name: r.Name, Arch: r.Arch, Path: filepath.Join(dir, r.Link()), BTFFile: r.BTFFile, Features: r.Features,
			GoTests: r.GoTests || len(patterns) > 0 && !catalogue.IsOdd(r.Name), NoBTF: r.NoBTF, Unarchived: r.Unarchived,
			Odd: r.Odd}
		if strings.HasPrefix(r.Name, local.Prefix) {
			k.Path = filepath.Join(dir, r.Name)
		}
		k.SHA256, err = FileDigest(k.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no image of kernel %s: 'make kernel-images' fetches it", k.Name)
		} else if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		// An image of two rows runs under the name of the first, and on each odd machine.
		if !slices.ContainsFunc(kernels, func(other Kernel) bool {
			return other.SHA256 == k.SHA256 && other.BTFFile == k.BTFFile && !catalogue.IsOdd(r.Name) && !catalogue.IsOdd(other.Name)
		}) {
			kernels = append(kernels, k)
		}
	}
	return kernels, nil
}

// Selection selects what runs on each kernel. The zero value runs all of quark-test.
type Selection struct {
	Backends []string // names or letters; none: the default backends
	BTF      []BTF    // sources of the kernel's types; none: all

	// Tests holds patterns. Without a pattern all tests run, but with types hidden only those
	// that depend on types. A pattern with a dot, such as kprobe.Test*, selects Go tests. A
	// pattern without a dot selects tests of quark-test. "*" selects all of both.
	Tests []string

	Packages []string // ./DIR; their Go tests run too
	Command  []string // runs instead of tests
	Keep     []string // files that the guest sends when the command has ended
	Env      []string // NAME=VALUE, for the tests or the command
	Append   []string // words for the kernel's command line
}

// Plan returns the guests for each kernel: one for quark-test with all backends, one for quark-test
// with the kernel's types hidden and the backends that need types, and one for Go tests, which the
// default set runs on some kernels only. A command has only one guest for each kernel. images maps
// an architecture to its initramfs. A guest for Go tests gets another initramfs when its test
// binaries are built.
func Plan(kernels []Kernel, s Selection, images map[string]string) ([]Guest, error) {
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
		switch {
		case k.BTFFile != "":
			ways = []BTF{BTFFile}
		case k.NoBTF, catalogue.IsOdd(k.Name), k.Unarchived && !slices.Contains(s.BTF, BTFHidden):
			// Do not hide types if quark's archive lacks them, if the kernel has none,
			// or on an odd machine: the kernel has another row, which hides them.
			ways = []BTF{BTFPresent}
		}
		for _, way := range ways {
			if len(s.BTF) > 0 && !slices.Contains(s.BTF, way) {
				continue
			}
			g := Guest{Kernel: k, BTF: way, Part: PartTests, Env: s.Env, Append: s.Append, Keep: s.Keep, Image: image}
			if len(s.Command) > 0 {
				// Types are hidden only on explicit request.
				if way != BTFHidden || len(s.BTF) > 0 {
					g.Part, g.Command = PartCommand, s.Command
					guests = append(guests, g)
				}
				continue
			}
			if quarkTest != nil {
				if g, ok := g.forTests(quarkTest, chosen); ok {
					guests = append(guests, g)
				}
			}
			// Odd machines run only named Go tests.
			withGo := way != BTFHidden && (k.GoTests || len(s.Tests) > 0 && !catalogue.IsOdd(k.Name) || len(goTests) > 0)
			if packages := s.packages(chosen); goTests != nil && len(packages) > 0 && withGo {
				g.Part, g.Packages, g.Tests = PartGo, packages, goTests
				guests = append(guests, g)
			}
		}
	}
	if len(guests) == 0 {
		return nil, errors.New("nothing to run: no combination of kernel, backend, test and source of types")
	}
	return guests, nil
}

// forTests returns the guest with the work of quark-test. ok is false if no chosen backend has
// tests with the guest's types.
func (g Guest) forTests(patterns []string, chosen []Backend) (with Guest, ok bool) {
	g.Tests = patterns
	if g.BTF != BTFHidden && slices.Contains(g.Tests, "*") {
		g.Tests = nil // the default command; its results may be cached
	}
	for _, b := range chosen {
		if g.BTF != BTFHidden || b.Types {
			g.Backends = append(g.Backends, b)
		}
	}
	return g, len(g.Backends) > 0
}

// tests returns the patterns for quark-test and for Go tests: nil for no test, empty for all.
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

// packages returns the packages without those of backends that are not chosen.
func (s Selection) packages(chosen []Backend) []string {
	return slices.DeleteFunc(slices.Clone(s.Packages), func(p string) bool {
		b := BackendOf(p)
		return b != NoBackend && !slices.ContainsFunc(chosen, func(c Backend) bool { return c.Name == b })
	})
}

// BackendOf returns the backend that a package implements, or NoBackend.
func BackendOf(pkg string) string {
	for _, b := range Backends {
		if path.Base(pkg) == b.Name {
			return b.Name
		}
	}
	return NoBackend
}

// KnownBackends returns the names of all backends, with their letters, for help.
func KnownBackends() string {
	var known []string
	for _, b := range Backends {
		name := b.Name
		if letter, ok := strings.CutPrefix(b.Option, "-"); ok && len(letter) == 1 {
			name += " (" + letter + ")"
		}
		known = append(known, name)
	}
	return strings.Join(known, ", ")
}

// backends returns the chosen backends, in the order of the tables.
func (s Selection) backends() ([]Backend, error) {
	is := func(b Backend, name string) bool { return name == b.Name || "-"+name == b.Option }
	for _, name := range s.Backends {
		if !slices.ContainsFunc(Backends, func(b Backend) bool { return is(b, name) }) {
			return nil, fmt.Errorf("unknown backend %q: want one of %s", name, KnownBackends())
		}
	}
	return slices.DeleteFunc(slices.Clone(Backends), func(b Backend) bool {
		if len(s.Backends) == 0 {
			return !b.Default
		}
		return !slices.ContainsFunc(s.Backends, func(name string) bool { return is(b, name) })
	}), nil
}

// Shard divides the guests into n parts and returns the part with the given number, from 1. The
// guests of a kernel are in several parts.
func Shard(guests []Guest, part, n int) (list []Guest) {
	for i, g := range guests {
		if i%n == part-1 {
			list = append(list, g)
		}
	}
	return list
}
