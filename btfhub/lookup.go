package btfhub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Lookup returns the kernel with a release and an architecture (exact), or else the nearest one of
// the same distribution, flavour and x.y series. If there is none the error is a [*NotFoundError].
func (a *Archive) Lookup(release, arch string) (e Entry, exact bool, err error) {
	wanted := ParseRelease(release)
	var best []int
	var near []near
	for _, k := range a.kernels {
		if k.Arch != arch {
			continue
		}
		if k.Release == release {
			return k, true, nil
		}
		r := ParseRelease(k.Release)
		d := wanted.distance(r)
		near = append(near, nearness(wanted, r, k.Release, d))
		if wanted.related(r) && (best == nil || slices.Compare(d, best) < 0) {
			e, best = k, d
		}
	}
	if best != nil {
		return e, false, nil
	}
	return Entry{}, false, notFound(release, arch, wanted, near)
}

// NotFoundError is the error of a look-up that finds no kernel.
type NotFoundError struct {
	Release, Arch string
	Kernel        Release  // the parsed Release
	Near          []string // up to three near releases, for a person to see
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("the archive has no types for %s on %s (%v)", e.Release, e.Arch, e.Kernel)
	if len(e.Near) > 0 {
		s += ", near are " + strings.Join(e.Near, ", ")
	}
	return s
}

// Is reports whether target is [errors.ErrUnsupported], which the error also is.
func (e *NotFoundError) Is(target error) bool { return target == errors.ErrUnsupported }

type near struct {
	release string
	rank    []int
}

// nearness ranks a kernel for the error: those of the same series are first.
func nearness(wanted, r Release, release string, distance []int) near {
	rank := make([]int, 0, len(distance)+4)
	for i := range 2 {
		rank = append(rank, abs(numberAt(wanted.Numbers, i)-numberAt(r.Numbers, i)))
	}
	differs := func(a, b string) int {
		if a == b {
			return 0
		}
		return 1
	}
	rank = append(rank, differs(wanted.Distro, r.Distro), differs(wanted.Flavour, r.Flavour))
	return near{release, append(rank, distance...)}
}

// nearShown is the number of near kernels in the error.
const nearShown = 3

func notFound(release, arch string, wanted Release, all []near) *NotFoundError {
	slices.SortStableFunc(all, func(x, y near) int { return slices.Compare(x.rank, y.rank) })
	e := &NotFoundError{Release: release, Arch: arch, Kernel: wanted}
	for _, n := range all[:min(nearShown, len(all))] {
		e.Near = append(e.Near, n.release)
	}
	return e
}
