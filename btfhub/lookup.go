package btfhub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Lookup returns the kernel of a release and an architecture; exact tells
// whether it is that one, and not just the nearest of the same distribution,
// flavour and x.y series. If there is none the error is a [*NotFoundError].
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

// NotFoundError says that an archive has no kernel that would do.
type NotFoundError struct {
	Release, Arch string
	Kernel        Release  // what the release tells
	Near          []string // releases that are near and would not do, nearest first
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("the archive has no types for %s on %s (%v)", e.Release, e.Arch, e.Kernel)
	if len(e.Near) > 0 {
		s += ", near are " + strings.Join(e.Near, ", ")
	}
	return s
}

// Is tells that the error is an [errors.ErrUnsupported].
func (e *NotFoundError) Is(target error) bool { return target == errors.ErrUnsupported }

type near struct {
	release string
	rank    []int
}

// nearness ranks kernels that would not do, for a person to see what is there:
// those of the same series first.
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

// nearShown is how many near kernels an error names.
const nearShown = 3

func notFound(release, arch string, wanted Release, all []near) *NotFoundError {
	slices.SortStableFunc(all, func(x, y near) int { return slices.Compare(x.rank, y.rank) })
	e := &NotFoundError{Release: release, Arch: arch, Kernel: wanted}
	for _, n := range all[:min(nearShown, len(all))] {
		e.Near = append(e.Near, n.release)
	}
	return e
}
