package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/internal/harness/debian"
)

// program is a program in the archive's /bin.
type program struct {
	pkg, name string // package, and name of the file in the package
	as        string // name in /bin
}

// programs returns the programs of all monitors. A monitor without a package, such as process
// accounting, has none.
func programs() (list []program) {
	for _, m := range monitor.All() {
		for _, name := range m.PackagePrograms() {
			if !slices.Contains(list, program{m.Package, name, name}) {
				list = append(list, program{m.Package, name, name})
			}
		}
	}
	// Add a shell for the pipelines of monitors, and for --command.
	return append(list, program{"dash", "dash", "sh"})
}

// roots returns the packages of the programs.
func roots() (names []string) {
	for _, p := range programs() {
		names = append(names, p.pkg)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// build builds the archive from the current Debian packages.
func build(ctx context.Context, release, arch string, say func(format string, args ...any)) ([]byte, error) {
	a, err := debian.New(ctx, say, arch)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	packages, err := closure(roots(), func(names []string) (map[string]debian.Package, error) {
		return a.Newest(ctx, release, names...)
	})
	if err != nil {
		return nil, err
	}
	say("fetching %d packages", len(packages))
	t := &tree{files: make(map[string][]byte), links: make(map[string]string), bins: make(map[string]string)}
	var list strings.Builder
	for _, p := range packages {
		deb, err := a.Download(ctx, p) // apt checks the file against the signed list
		if err == nil {
			err = t.add(ctx, deb, p.Name)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&list, p)
	}
	wanted, err := t.wanted()
	if err != nil {
		return nil, err
	}
	return pack(wanted, list.String())
}

// library matches packages of shared libraries. Other dependencies, such as perl, python3 and mawk,
// are needed only for scripts and for configuring a package.
var library = regexp.MustCompile(`^z?lib`)

// closure returns packages with all libraries that they depend on, sorted by name. newest returns
// the existing packages of a list.
func closure(names []string, newest func(names []string) (map[string]debian.Package, error)) (list []debian.Package, err error) {
	seen := make(map[string]bool)
	for first := true; len(names) > 0; first = false {
		found, err := newest(names)
		if err != nil {
			return nil, err
		}
		var more []string
		for _, name := range names {
			p, ok := found[name]
			if !ok {
				if first {
					return nil, fmt.Errorf("the release has no package %s", name)
				}
				continue // an alternative, or a virtual package
			}
			list = append(list, p)
			for _, d := range libraries(p.Depends) {
				if !seen[d] {
					seen[d] = true
					more = append(more, d)
				}
			}
		}
		names = more
	}
	slices.SortFunc(list, func(a, b debian.Package) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, debian.Package.Same), nil
}

// libraries returns the packages of libraries in a list of dependencies, including alternatives.
func libraries(depends string) (names []string) {
	for _, word := range strings.FieldsFunc(depends, func(r rune) bool { return r == ',' || r == '|' }) {
		name, _, _ := strings.Cut(strings.TrimSpace(word), " ")
		name, _, _ = strings.Cut(name, ":")
		if library.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}
