package main

import (
	"fmt"
	"os"
	"strings"
)

// archives are the addresses that the machine's own apt uses for Debian.
type archives struct {
	main     source // suites such as bookworm, trixie-backports, sid
	security source // suites such as bookworm-security
}

type source struct {
	uri      string
	signedBy string // empty: apt's own trusted keys
}

// targetsFormat has apt-get indextargets print what parseTargets reads. An apt that does not know a
// field leaves its placeholder as it is.
const targetsFormat = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(ORIGIN)|$(SIGNED_BY)"

// parseTargets finds Debian's archives in the output of apt-get indextargets --format
// targetsFormat.
//
// An archive is Debian's if the origin in its signed release file says so or, on a machine that has
// not fetched that file yet, if the suite has one of Debian's names.
func parseTargets(output string) archives {
	var a archives
	for _, line := range strings.Split(output, "\n") {
		f := strings.Split(line, "|")
		if len(f) != 5 || f[0] != "Packages" || f[1] == "" {
			continue
		}
		uri, suite, origin, signedBy := f[1], f[2], known(f[3]), known(f[4])
		if origin != "Debian" && (origin != "" || !debianSuite(suite)) {
			continue
		}
		// The field may name several keys, or hold one in itself; only files can be named
		// again.
		if !strings.HasPrefix(signedBy, "/") {
			signedBy = ""
		}
		dst := &a.main
		if isSecurity(suite) {
			dst = &a.security
		}
		if dst.uri == "" {
			*dst = source{uri, signedBy}
		}
	}
	return a
}

// known gives "" for a placeholder that apt did not replace.
func known(field string) string {
	if strings.HasPrefix(field, "$(") {
		return ""
	}
	return field
}

func isSecurity(suite string) bool {
	return strings.HasSuffix(suite, "-security") || strings.HasSuffix(suite, "/updates")
}

func debianSuite(suite string) bool {
	base, _, _ := strings.Cut(suite, "/")
	for _, suffix := range []string{"-security", "-updates", "-backports"} {
		base = strings.TrimSuffix(base, suffix)
	}
	switch base {
	case "bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable", "testing", "unstable":
		return true
	}
	return false
}

// keyrings of the package debian-archive-keyring, which has the keys of all suites.
var keyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.gpg",
	"/usr/share/keyrings/debian-archive-keyring.pgp",
}

// sourcesList returns a sources.list for suites, and which of them it covers: the machine's apt may
// know no archive of some.
func (a archives) sourcesList(suites, arches []string) (list string, covered []string) {
	var b strings.Builder
	for _, suite := range suites {
		src := a.main
		if isSecurity(suite) {
			src = a.security
		}
		if src.uri == "" {
			continue
		}
		if src.signedBy == "" {
			for _, path := range keyrings {
				if _, err := os.Stat(path); err == nil {
					src.signedBy = path
					break
				}
			}
		}
		options := "arch=" + strings.Join(arches, ",") + " target=Packages"
		if src.signedBy != "" {
			options += " signed-by=" + src.signedBy
		}
		fmt.Fprintf(&b, "deb [%s] %s %s main\n", options, src.uri, suite)
		covered = append(covered, suite)
	}
	return b.String(), covered
}
