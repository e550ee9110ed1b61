package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// surveySuites are those that have kernels with types, beyond the catalogue's.
var surveySuites = []string{
	"bullseye-security", "bullseye", "bookworm-security", "bookworm", "bookworm-backports",
	"trixie-security", "trixie", "trixie-backports", "forky", "sid",
}

// survey gets the types of many kernels: of each suite, series, flavour and architecture a few
// releases.
type survey struct {
	types   *typesDir
	each    int    // releases of each
	pattern string // of releases, "" for all
	say     func(format string, args ...any)
}

// surveyTries is how many packages of a group are tried: archives list many that they no longer
// have.
const surveyTries = 8

// batch bounds the packages that are downloaded at a time, and so the room they take.
const batch = 4

// run surveys all suites. A suite that cannot be had is reported and left out.
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
	for len(groups) > 0 {
		n := min(batch, len(groups))
		if err := s.fetch(ctx, a, groups[:n]); err != nil {
			return err
		}
		groups = groups[n:]
	}
	return nil
}

// groups returns for each kernel wanted the packages that would do, best first.
func (s *survey) groups(packages []Package) ([][]Package, error) {
	rows := make(map[string]catalogue.Row)
	byRow := make(map[string][]Package)
	for _, p := range packages {
		m := kernelPackage.FindStringSubmatch(p.Name)
		if m == nil || p.Size < smallestImage || m[4] != p.Arch {
			continue
		}
		if ok, err := path.Match(s.pattern, p.release()); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", s.pattern, err)
		} else if !ok && s.pattern != "" {
			continue
		}
		r := surveyRow(m)
		rows[r.Name] = r
		byRow[r.Name] = append(byRow[r.Name], p)
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

// surveyRow is the row that a package with these parts of its name belongs to.
func surveyRow(m []string) catalogue.Row {
	flavour := m[3]
	if flavour == "" {
		flavour = "generic"
	}
	return catalogue.Row{Name: m[2] + "-" + flavour + "-" + m[4], Series: m[2], Flavour: flavour, Arch: m[4]}
}

// spread divides candidates, newest first, into up to n groups of neighbours, one to be taken from
// each: the newest, the oldest and some between. The last group is reversed, as its oldest is
// wanted first.
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

// fetch gets the types of one kernel of each group, going on to a group's next package while the
// archive does not have it.
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
		removeAll(files)
	}
	return ctx.Err()
}
