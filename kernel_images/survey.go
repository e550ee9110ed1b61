package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
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

// run surveys all suites. It reports a suite that it cannot get and goes on.
func (s *survey) run(ctx context.Context) error {
	for _, suite := range surveySuites {
		// It knows this suite's packages only.
		a, err := openArchive(ctx, s.say, "amd64", "arm64")
		if err != nil {
			return err
		}
		err = s.suite(ctx, a, suite)
		a.Close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			s.say("%s: %v", suite, err)
		}
	}
	return nil
}

func (s *survey) suite(ctx context.Context, a *archive, suite string) error {
	packages, err := a.kernels(ctx, suite)
	if err != nil {
		return err
	}
	groups, err := s.groups(packages)
	if err != nil {
		return err
	}
	for _, group := range groups {
		p, had, err := a.first(ctx, group, s.types.has, func(p debian.Package, deb string) error { return s.types.keep(ctx, p, deb) })
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			s.say("%s: %v", group[0], err)
		case !had:
			s.say("%s: types kept", p)
		}
	}
	return nil
}

// groups returns for each wanted kernel its possible packages, best first.
func (s *survey) groups(packages []debian.Package) ([][]debian.Package, error) {
	rows := make(map[string]catalogue.Row)
	byRow := make(map[string][]debian.Package)
	for _, p := range packages {
		ok, err := path.Match(cmp.Or(s.pattern, "*"), releaseOf(p))
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", s.pattern, err)
		}
		if r, isKernel := rowOf(p); isKernel && ok {
			rows[r.Name] = r
			byRow[r.Name] = append(byRow[r.Name], p)
		}
	}
	var groups [][]debian.Package
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		found, err := candidates(rows[name], byRow[name])
		if err != nil {
			return nil, err
		}
		groups = append(groups, spread(found, s.each)...)
	}
	return groups, nil
}

// spread divides candidates, newest first, into up to n groups of neighbours. The first packages of
// the groups are the newest one, some between and the oldest one: the last group is reversed.
func spread(candidates []debian.Package, n int) [][]debian.Package {
	n = min(n, len(candidates))
	var groups [][]debian.Package
	for i := range n {
		group := slices.Clone(candidates[i*len(candidates)/n : (i+1)*len(candidates)/n])
		if i == n-1 && n > 1 {
			slices.Reverse(group)
		}
		groups = append(groups, group)
	}
	return groups
}
