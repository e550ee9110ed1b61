package main

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// otherTypes opens queues with the types of other kernels, as a user may. Open must reject types if
// the offset of a self-tested member differs, and accept types with the same offsets. With all
// accepted types, events must be correct.
func otherTypes(t *test) {
	if b := t.cells[0].backend; b != "ebpf" && b != "kprobe" {
		t.Skipf("the backend reads no kernel types")
	}
	if hiddenTypes() {
		t.Skipf("the same archive is tested on kernels that show their own types")
	}
	own := t.typesOf(btfhub.Options{})
	running := unameRelease(t)
	// Without a working backend, every error would look like rejected types.
	t.close(t.open(withTypes(btfhub.Options{})))
	var accepted, refused int
	for _, release := range t.otherReleases(running, own) {
		o := btfhub.Options{EmbeddedOnly: true, Release: release}
		moved := own.Moved(t.typesOf(o))
		differs := slices.ContainsFunc(moved, func(name string) bool { return slices.Contains(selfTested, name) })
		t.Waiting("the queue to open with types of " + release)
		v, err := t.tryOpen(withTypes(o))
		if err != nil {
			if errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "can do harm") {
				t.Skipf("%v", err)
			}
			refused++
			t.Logf("types of %s, in which %d members moved: %v", release, len(moved), err)
			if len(moved) == 0 {
				t.Errorf("types of %s with the same offsets are rejected: %v", release, err)
			}
			if !strings.Contains(err.Error(), release) || !strings.Contains(err.Error(), "self-test") && !strings.Contains(err.Error(), "open with types") {
				t.Errorf("got error %v, want the release and the failed check of the types", err)
			}
			continue
		}
		accepted++
		from := v.q.Capabilities().Types
		if differs {
			t.Errorf("types of %s are accepted, want them rejected: these members moved: %v", release, moved)
			continue
		}
		if !strings.Contains(from, release) || !strings.Contains(from, running) {
			t.Errorf("got origin of types %q, want one that names %s and %s", from, release, running)
		}
		t.checkQueues()
		t.close(v)
	}
	t.Logf("%d accepted, %d rejected", accepted, refused)
	if refused == 0 {
		t.Errorf("no types were rejected, so the test shows nothing")
	}

	const madeUp = "9.99.0-made-up"
	t.wantOpenError(btfhub.Options{EmbeddedOnly: true, Release: madeUp}, madeUp)
}

// withTypes returns the options of a queue that uses the types of o.
func withTypes(o btfhub.Options) quark.Options {
	opts := queueOptions(single)
	opts.BTF = o
	return opts
}

// wantOpenError checks that no queue opens with the types of o, and that the error contains word.
func (t *test) wantOpenError(o btfhub.Options, word string) {
	if v, err := t.tryOpen(withTypes(o)); err == nil {
		t.close(v)
		t.Errorf("opened with types of %s", word)
	} else if !strings.Contains(err.Error(), word) {
		t.Errorf("got error without %s: %v", word, err)
	}
}

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

// hiddenTypes reports whether an empty file system is mounted over the kernel's own types.
func hiddenTypes() bool {
	var s unix.Statfs_t
	return unix.Statfs(filepath.Dir(btfhub.KernelBTF), &s) == nil && s.Type == unix.TMPFS_MAGIC
}

// selfTested lists members for which the self-test notices a wrong offset, because adjacent members
// differ.
var selfTested = []string{
	"task_struct.pid", "task_struct.tgid", "task_struct.comm", "task_struct.group_leader", "task_struct.real_parent",
	"task_struct.start_boottime", "task_struct.signal", "task_struct.mm", "task_struct.fs", "task_struct.nsproxy",
	"mm_struct.exe_file", "mm_struct.arg_start", "fs_struct.pwd.dentry", "dentry.d_parent",
}

func (t *test) typesOf(o btfhub.Options) *btfhub.Offsets {
	k, err := btfhub.Open(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return btfhub.Resolve(k.Spec)
}

// otherReleases returns other kernels of the archive: one of the running kernel's series, one with
// the same offsets if those of the first differ, and a much older or newer one.
func (t *test) otherReleases(running string, own *btfhub.Offsets) (list []string) {
	near, siblings := "", []string(nil)
	for _, k := range t.archive().Kernels() {
		if k.Arch == runtime.GOARCH && k.Release != running && series(k.Release) == series(running) {
			near = k.Release
			siblings = append(siblings, near)
		}
	}
	same := func(release string) bool {
		return release != "" && len(own.Moved(t.typesOf(btfhub.Options{EmbeddedOnly: true, Release: release}))) == 0
	}
	if near == "" {
		t.Logf("the archive has no other kernel of the series of %s", running)
	} else {
		list = append(list, near)
	}
	if !same(near) {
		if i := slices.IndexFunc(siblings, same); i >= 0 {
			list = append(list, siblings[i])
		} else {
			t.Logf("the archive has no other kernel with the same offsets as %s", running)
		}
	}
	return append(list, t.otherSeries(running))
}

func unameRelease(t *test) string {
	release, err := kernelversion.Running()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return release
}
