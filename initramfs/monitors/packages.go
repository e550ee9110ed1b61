package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/internal/harness/debian"
	"github.com/quark-linux/quark/internal/harness/usercache"
)

// program is a program that the archive has in /bin.
type program struct {
	pkg, name string // package, and name of the file in it
	as        string // its name in /bin
}

// programs returns the programs of all monitors. Monitors without a package, like the kernel's
// accounting, have none.
func programs() (list []program) {
	for _, m := range monitor.All() {
		for _, name := range m.PackagePrograms() {
			if !slices.Contains(list, program{m.Package, name, name}) {
				list = append(list, program{m.Package, name, name})
			}
		}
	}
	// A shell for the pipelines of monitors, and for --command.
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

// locked is the last resolved list of packages, in the cache.
type locked struct {
	Roots    []string         `json:"roots"`
	Packages []debian.Package `json:"packages"`
}

// resolve gets the packages into the cache, or uses the last ones if all are there.
func (m *maker) resolve(ctx context.Context) error {
	name := fmt.Sprintf("%s-%s.json", m.release, m.arch)
	if !m.update {
		var l locked
		_, err := m.cache.Verify(name)
		if err == nil {
			var b []byte
			if b, err = os.ReadFile(m.cache.Path(name)); err == nil {
				err = json.Unmarshal(b, &l)
			}
		}
		if err == nil && slices.Equal(l.Roots, roots()) && m.have(l.Packages) {
			m.packages = l.Packages
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			m.say("%s: %v; asking apt again", name, err)
		}
	}
	a, err := debian.New(ctx, m.say, m.arch)
	if err != nil {
		return err
	}
	defer a.Close()
	m.packages, err = closure(roots(), func(names []string) (map[string]debian.Package, error) {
		return a.Newest(ctx, m.release, names...)
	})
	if err != nil {
		return err
	}
	m.say("fetching %d packages, those that are not in the cache", len(m.packages))
	for _, p := range m.packages {
		if err := m.fetch(ctx, a, p); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(locked{roots(), m.packages}, "", "\t")
	if err == nil {
		_, err = m.cache.Store(name, append(b, '\n'))
	}
	return err
}

// have reports whether the cache has the packages.
func (m *maker) have(packages []debian.Package) bool {
	return !slices.ContainsFunc(packages, func(p debian.Package) bool {
		sum, err := m.cache.Verify(debName(p))
		return err != nil || sum != p.SHA256
	})
}

// fetch gets a package into the cache and checks it against the signed list.
func (m *maker) fetch(ctx context.Context, a *debian.Apt, p debian.Package) error {
	if m.have([]debian.Package{p}) {
		return nil
	}
	deb, err := a.Download(ctx, p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Dir(deb))
	content, err := os.ReadFile(deb)
	if err != nil {
		return err
	}
	if sum := usercache.Checksum(content); sum != p.SHA256 {
		return fmt.Errorf("%s: sha256 is %s, want %s", p, sum, p.SHA256)
	}
	_, err = m.cache.Store(debName(p), content)
	return err
}

// debName is the name of a package's file in the cache.
func debName(p debian.Package) string {
	return fmt.Sprintf("%s_%s_%s.deb", p.Name, strings.ReplaceAll(p.Version, ":", "%3a"), p.Arch)
}

// library matches packages of shared libraries. Other dependencies are for scripts and for setting
// a package up: perl, python3, mawk.
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

// libraries returns the packages of libraries in a list of dependencies, alternatives too.
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
