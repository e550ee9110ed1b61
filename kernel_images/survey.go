package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// surveySuites are all suites that have kernels with types, more than the catalogue's.
var surveySuites = []string{
	"bullseye-security", "bullseye", "bookworm-security", "bookworm", "bookworm-backports",
	"trixie-security", "trixie", "trixie-backports", "forky", "sid",
}

// survey gets the types of many kernels: a few releases of each suite, series, flavour and
// architecture.
type survey struct {
	types   *typesDir
	each    int    // releases of each
	pattern string // of releases; "": all
	say     func(format string, args ...any)
}

// surveyTries bounds the packages of a group that are tried: archives list many that they no longer
// have.
const surveyTries = 8

// batch bounds the packages that are on disk at a time.
const batch = 4

// run surveys all suites. It reports a suite that it cannot get and goes on.
func (s *survey) run(ctx context.Context, temp string) error {
	if err := checkTools(); err != nil {
		return err
	}
	from, err := systemArchives(ctx)
	if err != nil {
		return err
	}
	a, err := newApt(ctx, temp, []string{"amd64", "arm64"})
	if err != nil {
		return err
	}
	for _, suite := range surveySuites {
		err := s.suite(ctx, a, from, suite)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.say("%s: %v", suite, err)
		}
	}
	return nil
}

func (s *survey) suite(ctx context.Context, a *apt, from archives, suite string) error {
	list, covered := from.sourcesList([]string{suite}, a.arches)
	if len(covered) == 0 {
		return fmt.Errorf("apt's sources name no archive that has it")
	}
	packages, err := a.packages(ctx, list)
	if err != nil {
		return err
	}
	groups, err := s.groups(packages)
	if err != nil {
		return err
	}
	s.say("%s: %d kernels wanted", suite, len(groups))
	for some := range slices.Chunk(groups, batch) {
		if err := s.fetch(ctx, a, some); err != nil {
			return err
		}
	}
	return nil
}

// groups returns for each wanted kernel its possible packages, best first.
func (s *survey) groups(packages []Package) ([][]Package, error) {
	rows := make(map[string]catalogue.Row)
	byRow := make(map[string][]Package)
	for _, p := range packages {
		ok, err := path.Match(cmp.Or(s.pattern, "*"), p.release())
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", s.pattern, err)
		}
		if r, isKernel := p.row(); isKernel && ok {
			rows[r.Name] = r
			byRow[r.Name] = append(byRow[r.Name], p)
		}
	}
	var groups [][]Package
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		found, err := candidates(rows[name], byRow[name], olderVersion)
		if err != nil {
			return nil, err
		}
		groups = append(groups, spread(found, s.each)...)
	}
	return groups, nil
}

// spread divides candidates, newest first, into up to n groups of neighbours. The first packages of
// the groups are the newest one, some between and the oldest one: the last group is reversed.
func spread(candidates []Package, n int) [][]Package {
	n = min(n, len(candidates))
	var groups [][]Package
	for i := range n {
		group := slices.Clone(candidates[i*len(candidates)/n : (i+1)*len(candidates)/n])
		if i == n-1 && n > 1 {
			slices.Reverse(group)
		}
		groups = append(groups, group)
	}
	return groups
}

// fetch gets the types of one kernel of each group. If the archive does not have a package it tries
// the group's next one.
func (s *survey) fetch(ctx context.Context, a *apt, groups [][]Package) error {
	for try := range surveyTries {
		want := make(map[int]Package)
		var packages []Package
		for i, g := range groups {
			if g == nil || try >= len(g) {
				continue
			}
			if s.types.has(g[try]) {
				groups[i] = nil
				continue
			}
			want[i] = g[try]
			packages = append(packages, g[try])
		}
		if len(packages) == 0 {
			continue
		}
		files, _ := a.download(ctx, packages) // what is missing is reported below
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i, p := range want {
			deb, ok := files[p]
			if !ok {
				s.say("%s %s: not to be had", p.Name, p.Version)
				continue
			}
			if err := s.types.keep(ctx, p, deb); err != nil {
				s.say("%s: %v", p.Name, err)
				continue
			}
			s.say("%s %s: types kept", p.Name, p.Version)
			groups[i] = nil
		}
		for _, path := range files {
			os.Remove(path)
		}
	}
	return ctx.Err()
}
