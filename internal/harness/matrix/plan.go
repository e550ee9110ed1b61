package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/vmlinuz"
)

// localPrefix begins the names of kernels that are in no catalogue but in the images' local directory.
const localPrefix = "local/"

// FindKernels returns the kernels of the architectures given that match any of the patterns, in the catalogue's order, then
// the local ones in that of their names, each image once. A pattern is of a whole name (6.1-cloud-amd64) or of one without its architecture
// (6.1-cloud); without a pattern the catalogue's default rows are taken, and all local kernels. dir is that of the images.
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

// localKernels returns a row for each image in a directory, which need not be there. A file that is no image is an error: whoever put
// it there expects it to be tested.
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

// Selection says what to run on each kernel. Its zero value runs all.
type Selection struct {
	Backends []string // names or letters; none: all
	Tests    []string // patterns of quark-test; none: all, but with types hidden those of what is read by them
	BTF      []BTF    // ways of having types; none: all
	Env      []string // NAME=VALUE, for the tests
	Wrap     []string // a command that runs the tests
}

// Plan returns the guests for kernels: each as it is with all backends, and with its types hidden with those backends that
// need types. images has the initramfs of each architecture.
func Plan(kernels []Kernel, s Selection, images map[string]string) ([]Guest, error) {
	chosen, err := s.backends()
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
			g := Guest{Kernel: k, BTF: way, Tests: s.Tests, Env: s.Env, Wrap: s.Wrap, Image: image}
			if way != BTFHidden && slices.Contains(g.Tests, "*") {
				g.Tests = nil // the same command, the results of which may be known
			}
			for _, b := range chosen {
				if way != BTFHidden || b.needsTypes() {
					g.Backends = append(g.Backends, b)
				}
			}
			if len(g.Backends) > 0 {
				guests = append(guests, g)
			}
		}
	}
	if len(guests) == 0 {
		return nil, errors.New("nothing to run: no kernel, backend and way of having types fit together")
	}
	return guests, nil
}

// needsTypes tells whether it makes a difference to the backend where the kernel's types come from.
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

// longestFirst orders guests for a pool of workers: those that took long first, and those that never ran before all others,
// for nobody knows. Equal ones keep their order.
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

// Shard returns the part of n (from 1) of the guests, so that each guest is in one part. Those of a kind, which take about as
// long as each other, are dealt out first.
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
