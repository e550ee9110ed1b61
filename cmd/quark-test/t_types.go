package main

import (
	"runtime"
	"slices"
	"strings"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// archivedTypes compares the running kernel's types in the archive with its own types. If all
// targets have the same offsets, programs and probes are the same, so the results of the other
// tests hold for the archive's types too.
func archivedTypes(t *test) {
	// Members that quark reads since the archive was built. With the archive's types their
	// fields are unknown, as the capability table reports.
	var sinceArchive []string

	running := unameRelease(t)
	archived, err := btfhub.Open(btfhub.Options{EmbeddedOnly: true})
	if err != nil {
		t.Skipf("%v", err)
	}
	own, err := btfhub.Open(btfhub.Options{Whole: true})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if own.Origin != btfhub.KernelBTF {
		t.Skipf("the kernel shows no types: quark uses those of %s", own.Origin)
	}
	for _, member := range btfhub.Moved(own.Spec, archived.Spec) {
		if slices.ContainsFunc(sinceArchive, func(since string) bool { return strings.HasPrefix(member, since) }) {
			continue
		}
		t.Errorf("%s: offset in the archive's types of %s differs from the kernel's", member, running)
	}
	// The comparison must find differences in the types of a much older or newer kernel.
	if far, err := btfhub.Open(btfhub.Options{EmbeddedOnly: true, Release: t.otherSeries(running)}); err != nil {
		t.Errorf("%v", err)
	} else if len(btfhub.Moved(own.Spec, far.Spec)) == 0 {
		t.Errorf("no offset differs in the types of %s, so the comparison shows nothing", far.Origin)
	}
}

// otherSeries returns an archived kernel of another series than the running kernel: the first of
// the oldest series, or the last one if the running kernel is of the oldest series.
func (t *test) otherSeries(running string) string {
	var all []string
	for _, k := range t.archive().Kernels() {
		if k.Arch == runtime.GOARCH {
			all = append(all, k.Release)
		}
	}
	if len(all) == 0 {
		t.Fatalf("the archive has no kernel for %s", runtime.GOARCH)
	}
	if series(all[0]) != series(running) {
		return all[0]
	}
	return all[len(all)-1]
}

// series returns x.y of a release.
func series(release string) string {
	numbers := strings.SplitN(release, ".", 3)
	return strings.Join(numbers[:min(2, len(numbers))], ".")
}

func (t *test) archive() *btfhub.Archive {
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return a
}

func unameRelease(t *test) string {
	release, err := kernelversion.Running()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return release
}
