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

// FindKernels returns the kernels of the given architectures that match any of the patterns: in the
// catalogue's order, then the local ones by name, each image once. A pattern matches a name with
// its architecture (6.1-cloud-amd64) or without it (6.1-cloud). Without patterns it returns the
// catalogue's default rows and all local kernels. dir has the images.
func FindKernels(dir string, rows []catalogue.Row, arches, patterns []string) ([]Kernel, error) {
	added, err := local.Rows(filepath.Join(dir, "local"))
	if err != nil {
		return nil, err
	}
	selected, err := catalogue.Select(append(slices.Clone(rows), added...), arches, patterns)
	if err != nil {
		return nil, fmt.Errorf("kernels of %s, those in %s among them: %w", strings.Join(arches, " and "), filepath.Join(dir, "local"), err)
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
		// An image that two rows have runs under the name of the first; each odd machine
		// runs it.
		if !slices.ContainsFunc(kernels, func(other Kernel) bool {
			return other.SHA256 == k.SHA256 && other.BTFFile == k.BTFFile && !catalogue.IsOdd(r.Name) && !catalogue.IsOdd(other.Name)
		}) {
			kernels = append(kernels, k)
		}
	}
	return kernels, nil
}

// Selection is what to run on each kernel. Its zero value runs all of quark-test.
type Selection struct {
	Backends []string // names or letters; none: those that run by default
	BTF      []BTF    // sources of the kernel's types; none: all

	// Tests are patterns. None: all, but with types hidden only the tests that depend on them.
	// A pattern with a dot, such as kprobe.Test*, selects Go tests, one without tests of
	// quark-test, and "*" all of both.
	Tests []string

	Packages []string // ./DIR; their Go tests run, too
	Command  []string // runs instead of tests
	Keep     []string // files of the guest that the host gets when the command has ended
	Env      []string // NAME=VALUE, for the tests or the command
	Append   []string // words for the kernel's command line
}

// Plan returns the guests for each kernel: one for quark-test with all backends, one for quark-test
// with the kernel's types hidden and the backends that need types, and one for Go tests, which the
// default set runs on some kernels only; or just one for a command. images has the initramfs of
// each architecture; a guest for Go tests gets another one when its test binaries are built.
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
			// Hidden ones would be missed, or there are none; or the machine's kernel
			// has a row of its own, too, which hides them.
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
			// Odd machines run the Go tests that are named.
			withGo := way != BTFHidden && (k.GoTests || len(s.Tests) > 0 && !catalogue.IsOdd(k.Name) || len(goTests) > 0)
			if packages := s.packages(chosen); goTests != nil && len(packages) > 0 && withGo {
				g.Part, g.Packages, g.Tests = PartGo, packages, goTests
				guests = append(guests, g)
			}
		}
	}
	if len(guests) == 0 {
		return nil, errors.New("nothing to run: no kernel, backend, test and way of having types fit together")
	}
	return guests, nil
}

// forTests returns the guest with the work of quark-test. ok is false when no chosen backend has
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

// tests returns the patterns of quark-test's tests and of the Go tests: nil for no test, empty for
// all.
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

// packages returns the packages but not those for backends that are not chosen.
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
			return nil, fmt.Errorf("unknown backend %q: it is one of %s", name, KnownBackends())
		}
	}
	return slices.DeleteFunc(slices.Clone(Backends), func(b Backend) bool {
		if len(s.Backends) == 0 {
			return !b.Default
		}
		return !slices.ContainsFunc(s.Backends, func(name string) bool { return is(b, name) })
	}), nil
}

// Shard returns part number part, from 1, of n parts of the guests. The guests of a kernel are in
// several parts.
func Shard(guests []Guest, part, n int) (list []Guest) {
	for i, g := range guests {
		if i%n == part-1 {
			list = append(list, g)
		}
	}
	return list
}
