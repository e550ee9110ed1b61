package debian

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// archives are the Debian archives in the machine's apt configuration.
type archives struct {
	main     source // of suites such as bookworm, trixie-backports, sid
	security source // of suites such as bookworm-security
}

type source struct {
	uri      string
	signedBy string // path of the keyring; "": apt's own trusted keys
}

// targetsFormat is the format for apt-get indextargets that parseTargets reads. apt prints the
// placeholder of an unknown field unchanged.
const targetsFormat = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(ORIGIN)|$(SIGNED_BY)"

// parseTargets returns Debian's archives in the output of apt-get indextargets. An archive is
// Debian's if the origin in its release file is Debian. If apt has not fetched that file yet, the
// suite must have one of Debian's names.
func parseTargets(output string) archives {
	var a archives
	for _, line := range strings.Split(output, "\n") {
		f := strings.Split(line, "|")
		if len(f) != 5 || f[0] != "Packages" || f[1] == "" {
			continue
		}
		uri, suite, origin, signedBy := f[1], f[2], fieldValue(f[3]), fieldValue(f[4])
		if origin != "Debian" && (origin != "" || !debianSuite(suite)) {
			continue
		}
		// The field may also hold several keys or an embedded key, but sourcesList can only
		// name a file.
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

// fieldValue returns "" for a placeholder that apt did not replace, else the field.
func fieldValue(field string) string {
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
	return slices.Contains(strings.Fields("bullseye bookworm trixie forky sid oldoldstable oldstable stable testing unstable"), base)
}

// keyrings are the files of the package debian-archive-keyring, which contains the keys of all
// suites.
var keyrings = []string{
	"/usr/share/keyrings/debian-archive-keyring.gpg",
	"/usr/share/keyrings/debian-archive-keyring.pgp",
}

// sourcesList returns a sources.list for those of the suites that the archives have.
func (a archives) sourcesList(suites, arches []string) string {
	var b strings.Builder
	for _, suite := range suites {
		src := a.main
		if isSecurity(suite) {
			src = a.security
		}
		if src.uri == "" {
			continue
		}
		for _, path := range keyrings {
			if _, err := os.Stat(path); err == nil && src.signedBy == "" {
				src.signedBy = path
			}
		}
		options := "arch=" + strings.Join(arches, ",") + " target=Packages"
		if src.signedBy != "" {
			options += " signed-by=" + src.signedBy
		}
		fmt.Fprintf(&b, "deb [%s] %s %s main\n", options, src.uri, suite)
	}
	return b.String()
}
