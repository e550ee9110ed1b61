package btfhub

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Release is a parsed kernel release (uname -r). Kernels of one distribution, flavour and series
// are built with nearly the same configuration.
type Release struct {
	Distro  string // "debian", "ubuntu", "suse", or "el8", "fc31", "amzn2"; "" if unknown
	Flavour string // such as "cloud" or "aws"; "generic" if the release names none
	Series  string // x.y
	Numbers []int  // all numbers of the release, in order
	shape   string // the release with # for each number
}

var (
	releaseNumbers = regexp.MustCompile(`[0-9]+`)
	releaseSeries  = regexp.MustCompile(`^([0-9]+\.[0-9]+)\b`)

	// 6.1.0-56-cloud-amd64, 6.12.117+deb13-amd64, 6.1.0-0.deb11.50-rt-arm64
	debianRelease = regexp.MustCompile(`^[0-9.]+(?:[-+~][0-9a-z.]*[0-9][0-9a-z.]*)*(?:-([a-z][a-z0-9]*))?-(?:amd64|arm64)$`)
	// 4.18.0-80.el8.x86_64, 5.4.17-2136.el7uek.x86_64, 5.6.6-200.fc31.aarch64,
	// 4.14.35-1.amzn2.x86_64
	rpmRelease = regexp.MustCompile(`\.(el[0-9]+|fc[0-9]+|amzn[0-9]+)(uek|_[0-9]+)?(?:\.[0-9.]+)*\.(?:x86_64|aarch64)(?:\+([a-z0-9]+))?$`)
	// 5.3.18-150300.59-default
	suseRelease = regexp.MustCompile(`^[0-9.]+-[0-9.]+-(default|preempt)$`)
	// 5.4.0-42-generic, 5.15.0-1019-aws
	ubuntuRelease = regexp.MustCompile(`^[0-9.]+-[0-9]+(?:\.[0-9]+)?-([a-z][a-z0-9-]*)$`)
)

// ParseRelease parses a release of Debian or of a distribution of btfhub-archive. Of others it
// knows the numbers only.
func ParseRelease(release string) Release {
	r := Release{shape: releaseNumbers.ReplaceAllString(release, "#")}
	if m := releaseSeries.FindStringSubmatch(release); m != nil {
		r.Series = m[1]
	}
	for _, word := range releaseNumbers.FindAllString(release, -1) {
		n, err := strconv.Atoi(word)
		if err != nil {
			n = -1 // larger than any version
		}
		r.Numbers = append(r.Numbers, n)
	}
	if m := debianRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "debian", m[1]
	} else if m := rpmRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = m[1], m[3]
		if m[2] == "uek" {
			r.Flavour = "uek"
		}
	} else if m := suseRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "suse", m[1]
	} else if m := ubuntuRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "ubuntu", m[1]
	}
	if r.Flavour == "" && r.Distro != "" {
		r.Flavour = "generic"
	}
	return r
}

// series returns the first two numbers.
func (r Release) series() []int { return r.Numbers[:min(2, len(r.Numbers))] }

func (r Release) String() string {
	if r.Distro == "" {
		return "unknown kernel"
	}
	return fmt.Sprintf("%s %s %s", r.Distro, r.Flavour, r.Series)
}

// related reports whether the types of other are a good guess: same distribution, flavour and
// series.
func (r Release) related(other Release) bool {
	return r.Distro != "" && r.Series != "" && r.Distro == other.Distro && r.Flavour == other.Flavour && r.Series == other.Series
}

// rank returns how far other is, for slices.Compare: related kernels come first. The differences
// are those of the series, the distribution and the flavour; then 1 if other is numbered in another
// way, as backports are; then those of the numbers.
func (r Release) rank(other Release) []int {
	differs := func(a, b string) int { return abs(strings.Compare(a, b)) }
	difference := func(i int) int { return abs(numberAt(r.Numbers, i) - numberAt(other.Numbers, i)) }
	rank := []int{difference(0), difference(1), differs(r.Distro, other.Distro), differs(r.Flavour, other.Flavour),
		differs(r.shape, other.shape)}
	for i := range max(len(r.Numbers), len(other.Numbers)) {
		rank = append(rank, difference(i))
	}
	return rank
}

func numberAt(numbers []int, i int) int {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}

func abs(n int) int { return max(n, -n) }
