package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
)

// imageOf returns the name in the cache of a package's image.
func imageOf(p debian.Package) string { return imageName(releaseOf(p), p.Version) }

// kernelPackage matches names of packages that may have an image: linux-image-* and, from 6.19 on,
// linux-binary-*. Archives publish unsigned packages first. Groups: "-unsigned" or "", the series,
// the flavour, the architecture.
var kernelPackage = regexp.MustCompile(`^linux-(?:image|binary(-unsigned)?)-(\d+\.\d+)\.\d[^-]*(?:-\d[^-]*)?(?:-([a-z]+))?-([a-z0-9]+)$`)

// imageFile matches the kernel image in a package: /boot/vmlinuz-RELEASE, from 7.2 on
// /usr/lib/modules/RELEASE/vmlinuz, and in unsigned packages vmlinuz.unsigned in the same
// directory.
const imageFile = "vmlinuz*"

// smallestImage is the smallest size of a package with an image. From 6.19 on linux-image-* is an
// empty package of 2 kB.
const smallestImage = 1 << 20

// rowOf returns the catalogue row of a package, by its name. ok is false for a package without an
// image.
func rowOf(p debian.Package) (r catalogue.Row, ok bool) {
	m := kernelPackage.FindStringSubmatch(p.Name)
	if m == nil || p.Size < smallestImage || m[4] != p.Arch {
		return r, false
	}
	flavour := cmp.Or(m[3], "generic")
	return catalogue.Row{Name: m[2] + "-" + flavour + "-" + m[4], Series: m[2], Flavour: flavour, Arch: m[4]}, true
}

// matches reports whether p may have the row's image.
func matches(r catalogue.Row, p debian.Package) bool {
	own, ok := rowOf(p)
	return ok && (r.Series == catalogue.Newest || r.Series == own.Series) && r.Flavour == own.Flavour && r.Arch == own.Arch
}

// releaseOf returns the kernel's release, uname -r, from a package's name.
func releaseOf(p debian.Package) string {
	for _, prefix := range []string{"linux-image-", "linux-binary-unsigned-", "linux-binary-"} {
		if release, ok := strings.CutPrefix(p.Name, prefix); ok {
			return release
		}
	}
	return p.Name
}

func isSigned(p debian.Package) bool { return !strings.HasPrefix(p.Name, "linux-binary-unsigned-") }

// candidates returns the packages that match the row, in the order of newestFirst.
func candidates(r catalogue.Row, packages []debian.Package) ([]debian.Package, error) {
	found := slices.DeleteFunc(slices.Clone(packages), func(p debian.Package) bool { return !matches(r, p) })
	return found, newestFirst(found)
}

// newestFirst sorts packages by version, newest first; of equal versions the signed package comes
// first.
func newestFirst(packages []debian.Package) (failure error) {
	slices.SortStableFunc(packages, func(a, b debian.Package) int {
		first := isSigned(a)
		if a.Version != b.Version {
			var err error
			first, err = debian.Older(b.Version, a.Version)
			failure = cmp.Or(failure, err)
		} else if isSigned(a) == isSigned(b) {
			return 0
		}
		if first {
			return -1
		}
		return 1
	})
	return failure
}
