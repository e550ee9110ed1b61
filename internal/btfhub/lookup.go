package btfhub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Lookup returns the kernel with a release and an architecture (exact), or else the nearest one of
// the same distribution, flavour and x.y series, if the distribution builds these alike (see
// [Release]). If there is none the error is [errors.ErrUnsupported] and names near releases.
func (a *Archive) Lookup(release, arch string) (e Entry, exact bool, err error) {
	type ranked struct {
		Entry
		release Release
		rank    []int
	}
	wanted := ParseRelease(release)
	var near []ranked
	for _, k := range a.kernels {
		if k.Arch != arch {
			continue
		}
		if k.Release == release {
			return k, true, nil
		}
		r := ParseRelease(k.Release)
		near = append(near, ranked{k, r, wanted.rank(r)})
	}
	slices.SortStableFunc(near, func(x, y ranked) int { return slices.Compare(x.rank, y.rank) })
	if len(near) > 0 && wanted.related(near[0].release) {
		return near[0].Entry, false, nil
	}
	text := fmt.Sprintf("the archive has no types for %s on %s (%v)", release, arch, wanted)
	if !wanted.guessable() {
		text += ", of which no other kernel is a guess"
	}
	var names []string
	for _, k := range near[:min(nearShown, len(near))] {
		names = append(names, k.Release)
	}
	if len(names) > 0 {
		text += ", near are " + strings.Join(names, ", ")
	}
	return Entry{}, false, notFoundError(text)
}

// nearShown is the number of near kernels in the error.
const nearShown = 3

// notFoundError is the error of a look-up that finds no kernel.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }

// Is reports whether target is [errors.ErrUnsupported], which the error also is.
func (e notFoundError) Is(target error) bool { return target == errors.ErrUnsupported }
