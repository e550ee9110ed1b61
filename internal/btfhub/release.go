package btfhub

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Release is a parsed kernel release (uname -r). Kernels of one distribution, flavour and series
// are built with nearly the same configuration.
type Release struct {
	// Distro is the distribution, with its version where that is in the release: "debian",
	// "ubuntu", "suse", "el8" (RHEL and what is built from its source, Oracle's UEK too),
	// "fc41", "amzn2", "oe2203" (openEuler), "kylin", "bclinux", "upstream" (a plain version
	// of kernel.org); "" if unknown.
	Distro string

	Flavour string // such as "cloud", "uek" or "rt"; "generic" if none is named
	Series  string // x.y
	Numbers []int  // in order, without those of the tag and the machine

	// shape is the release with # for each number: Debian's backports have another one. It is
	// "" of releases with the tag of a distribution.
	shape string
}

// ownConfigurations are the distributions of which two kernels of a series may have little in
// common: whoever builds a plain version configures it, and these vendors change theirs within
// a series. A guess among them is never made.
var ownConfigurations = []string{"kylin", "bclinux", "upstream"}

var (
	releaseNumbers = regexp.MustCompile(`[0-9]+`)
	releaseSeries  = regexp.MustCompile(`^([0-9]+\.[0-9]+)\b`)

	// 6.1.0-56-cloud-amd64, 6.12.117+deb13-amd64, 6.1.0-0.deb11.50-rt-arm64
	debianRelease = regexp.MustCompile(`^[0-9.]+(?:[-+~][0-9a-z.]*[0-9][0-9a-z.]*)*(?:-([a-z][a-z0-9]*))?-(?:amd64|arm64)$`)
	// 5.3.18-150300.59-default, 6.4.0-150600.8.5-azure
	suseRelease = regexp.MustCompile(`^[0-9.]+-[0-9.]+-(default|preempt)$|^[0-9.]+-[0-9]{5,}\.[0-9.]+-(azure|rt|64kb)$`)
	// 5.4.0-42-generic, 5.15.0-1019-aws, 6.8.0-1003.3-azure-fde. Without the first number's 0
	// it is of another distribution, such as Alpine or Kylin's desktop.
	ubuntuRelease = regexp.MustCompile(`^[0-9]+\.[0-9]+\.0-[1-9][0-9]{0,4}(?:\.[0-9]+)?-((?:` + ubuntuFlavours + `)(?:-[a-z0-9-]+)?)$`)
	// 5.4.287, 6.12, 6.13.0-rc3
	upstreamRelease = regexp.MustCompile(`^[0-9]+\.[0-9]+(?:\.[0-9]+)?(?:-rc[0-9]+)?\+?$`)
)

const ubuntuFlavours = "generic|lowlatency|virtual|aws|azure|gcp|gke|gkeop|oracle|ibm|kvm|oem|raspi2?|snapdragon|intel|nvidia|realtime|fips|bluefield|hwe|iot|xilinx"

// ParseRelease parses a release of a known distribution. Of others it knows the numbers only.
func ParseRelease(release string) Release {
	r := Release{shape: releaseNumbers.ReplaceAllString(release, "#")}
	if m := releaseSeries.FindStringSubmatch(release); m != nil {
		r.Series = m[1]
	}
	numbered := release
	if m := debianRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "debian", m[1]
	} else if version, distro, flavour, ok := parseRPM(release); ok {
		r.Distro, r.Flavour, r.shape, numbered = distro, flavour, "", version
	} else if m := suseRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "suse", m[1]+m[2]
	} else if m := ubuntuRelease.FindStringSubmatch(release); m != nil {
		r.Distro, r.Flavour = "ubuntu", m[1]
	} else if upstreamRelease.MatchString(release) {
		r.Distro = "upstream"
	}
	if r.Flavour == "" && r.Distro != "" {
		r.Flavour = "generic"
	}
	for _, word := range releaseNumbers.FindAllString(numbered, -1) {
		n, err := strconv.Atoi(word)
		if err != nil {
			n = -1 // larger than any version
		}
		r.Numbers = append(r.Numbers, n)
	}
	return r
}

// Releases of packages in rpm: version and release, the tag of the distribution, and the machine.
//
//	4.18.0-80.el8.x86_64                    5.4.17-2136.305.5.4.el8uek.x86_64
//	4.18.0-553.rt7.342.el8_10.x86_64        5.14.0-427.13.1.el9_4.aarch64+64k
//	3.10.0-1160.el7.centos.plus.x86_64      5.6.6-200.fc31.aarch64
//	4.14.355-271.569.amzn2.x86_64           5.10.0-136.12.0.86.oe2203sp1.aarch64
//	4.19.90-24.4.v2101.ky10.x86_64          4.19.90-2107.6.0.0192.8.oe1.bclinux.x86_64
var (
	rpmMachine = regexp.MustCompile(`\.(?:x86_64(?:_v[2-4])?|aarch64)(?:[.+]([a-z0-9+-]+))?$`)
	rpmTag     = regexp.MustCompile(`^(?:(el[0-9]+)(?:_[0-9]+)?(uek)?|(fc[0-9]+)|(amzn[0-9]+)|(oe[0-9]+)(?:sp[0-9]+)?|(ky)[0-9]+)$`)
	// rpmUnnamed are words that do not name a flavour: numbers, release candidates, commits,
	// Kylin's v2101.
	rpmUnnamed = regexp.MustCompile(`^(?:[0-9]+|rc[0-9]+|[0-9]*git[0-9a-f]+|[0-9]+g[0-9a-f]+|v[0-9]+)$`)
	rpmRT      = regexp.MustCompile(`^rt[0-9]+$`)
)

// parseRPM parses a release that has the tag of a distribution. version is what is before the tag.
// Any word that is not known is part of the flavour: a kernel that somebody has patched is no guess
// for one without.
func parseRPM(release string) (version, distro, flavour string, ok bool) {
	machine := rpmMachine.FindStringSubmatchIndex(release)
	number, _, found := strings.Cut(release, "-")
	if machine == nil || !found || machine[0] <= len(number) {
		return "", "", "", false
	}
	rest := release[len(number)+1 : machine[0]]
	var flavours []string
	for at := 0; at <= len(rest); {
		word, _, _ := strings.Cut(rest[at:], ".")
		tag := rpmTag.FindStringSubmatch(word)
		switch {
		case tag != nil && distro == "":
			version = number + "-" + rest[:at]
			for _, name := range []string{tag[1], tag[3], tag[4], tag[5], tag[6]} {
				distro += name
			}
			if tag[2] != "" {
				flavours = append(flavours, tag[2])
			}
		case rpmRT.MatchString(word):
			flavours = append(flavours, "rt")
		case word == "centos": // before "plus", and alone for the same kernel
		case !rpmUnnamed.MatchString(word):
			flavours = append(flavours, word)
		}
		at += len(word) + 1
	}
	if machine[2] >= 0 {
		flavours = append(flavours, strings.ReplaceAll(release[machine[2]:machine[3]], "+", "-"))
	}
	switch {
	case distro == "ky":
		distro = "kylin"
	case distro != "" && slices.Contains(flavours, "bclinux"):
		distro = "bclinux"
		flavours = slices.DeleteFunc(flavours, func(f string) bool { return f == "bclinux" })
	}
	return version, distro, strings.Join(flavours, "-"), distro != ""
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
	return r.Distro != "" && r.Series != "" && r.Distro == other.Distro && r.Flavour == other.Flavour && r.Series == other.Series &&
		r.guessable()
}

// guessable reports whether other kernels of its series can be a guess for the release.
func (r Release) guessable() bool { return !slices.Contains(ownConfigurations, r.Distro) }

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
