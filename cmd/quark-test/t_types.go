package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// guessedTypes opens with types of other kernels than the running one, as on a
// kernel that has none of its own and is not in the archive. Those in which
// members moved that the self-test cannot miss have to be refused, those that are
// the same have to be accepted, and with those that are accepted all has to be
// right.
func guessedTypes(t *test) {
	if t.Backend == "cnproc" {
		t.Skipf("it needs no types")
	}
	if hiddenTypes() {
		t.Skipf("the archive's types are as right or wrong where the kernel shows its own, and are tested there")
	}
	own := t.typesOf(btfhub.Options{})
	running := unameRelease(t)
	var accepted, refused int
	for _, release := range t.otherReleases(running, own) {
		o := btfhub.Options{EmbeddedOnly: true, Release: release}
		moved := movedMembers(own, t.typesOf(o))
		same, differs := len(moved) == 0, ""
		for _, name := range moved {
			if slices.Contains(selfTested, name) {
				differs = name
			}
		}
		t.Waiting("the queue to open with types of " + release)
		q, err := t.tryOpen(quark.Options{BTF: o})
		if err != nil {
			refused++
			t.Logf("types of %s, in which %q differs: %v", release, differs, err)
			if same {
				t.Errorf("types of %s are refused, but are the same: %v", release, err)
			}
			if !strings.Contains(err.Error(), release) || !strings.Contains(err.Error(), "self-test") {
				t.Errorf("the error does not say which types were tested: %v", err)
			}
			continue
		}
		accepted++
		from := q.Capabilities().Types
		if differs != "" {
			t.Errorf("types of %s are accepted, but %s differs", release, differs)
			continue
		}
		if !strings.Contains(from, release) || !strings.Contains(from, running) {
			t.Errorf("types are said to come from %q: it has to name %s and %s", from, release, running)
		}
		t.wantWorking("with types of " + release)
		t.close()
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if refused == 0 {
		t.Errorf("no types were refused: the test shows nothing")
	}

	// A release that the archive does not have.
	o := btfhub.Options{EmbeddedOnly: true, Release: "9.99.0-made-up"}
	set, _ := backends.Parse(t.Backend)
	if q, err := quark.Open(quark.Options{Backends: set, Strict: true, BTF: o}); err == nil {
		t.closeQueue(q)
		t.Errorf("opened with types of a release that is not there")
	} else if !strings.Contains(err.Error(), o.Release) {
		t.Errorf("a release that is not there: %v", err)
	}
}

// hiddenTypes tells whether the kernel's own types lie under an empty file system.
func hiddenTypes() bool {
	var s unix.Statfs_t
	return unix.Statfs(filepath.Dir(btfhub.KernelBTF), &s) == nil && s.Type == unix.TMPFS_MAGIC
}

// selfTested are members that the self-test goes through and whose neighbours
// have other values.
var selfTested = []string{
	"task_struct.pid", "task_struct.tgid", "task_struct.comm", "task_struct.group_leader", "task_struct.real_parent",
	"task_struct.start_boottime", "task_struct.signal", "task_struct.mm", "task_struct.fs", "task_struct.nsproxy",
	"mm_struct.exe_file", "mm_struct.arg_start", "fs_struct.pwd", "dentry.d_parent",
}

// movedMembers are the targets that are not the same in two kernels' types.
func movedMembers(x, y *btfhub.Offsets) (names []string) {
	for a := range x.All() {
		if b := y.Get(a.Target.Name); a.Found() != b.Found() || a.Bits != b.Bits || a.Value != b.Value {
			names = append(names, a.Target.Name)
		}
	}
	return names
}

func (t *test) typesOf(o btfhub.Options) *btfhub.Offsets {
	k, err := btfhub.Open(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return btfhub.Resolve(k.Spec)
}

// otherReleases are the nearest kernel of the archive that is not the running
// one, one in which nothing is elsewhere, and one far from it.
func (t *test) otherReleases(running string, own *btfhub.Offsets) (list []string) {
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatalf("%v", err)
	}
	me := btfhub.ParseRelease(running)
	var near, far, series []string
	for _, k := range a.Kernels() {
		r := btfhub.ParseRelease(k.Release)
		if k.Arch == runtime.GOARCH && k.Release != running && r.Distro == me.Distro && r.Series == me.Series {
			series = append(series, k.Release)
		}
		switch {
		case k.Arch != runtime.GOARCH || k.Release == running || r.Flavour != "cloud" && r.Flavour != "generic":
		case r.Distro == me.Distro && r.Series == me.Series && r.Flavour == me.Flavour:
			near = append(near, k.Release)
		case r.Series != me.Series:
			far = append(far, k.Release)
		}
	}
	slices.SortFunc(far, func(x, y string) int {
		return slices.Compare(btfhub.ParseRelease(x).Numbers, btfhub.ParseRelease(y).Numbers)
	})
	if len(near) > 0 {
		list = append(list, near[len(near)-1])
	} else {
		t.Logf("the archive has no other kernel of the series of %s", running)
	}
	same := slices.IndexFunc(series, func(release string) bool {
		return !slices.Contains(list, release) &&
			len(movedMembers(own, t.typesOf(btfhub.Options{EmbeddedOnly: true, Release: release}))) == 0
	})
	if same >= 0 {
		list = append(list, series[same])
	} else {
		t.Logf("the archive has no other kernel in which all is where it is in %s", running)
	}
	// The newest, or the oldest where the running one is newer still.
	switch {
	case len(far) == 0:
	case slices.Compare(btfhub.ParseRelease(far[len(far)-1]).Numbers, me.Numbers) > 0:
		list = append(list, far[len(far)-1])
	default:
		list = append(list, far[0])
	}
	return list
}

func unameRelease(t *test) string {
	release, err := kernelversion.Running()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return release
}

// typesFile names the file of the running kernel's types by hand.
func typesFile(t *test) {
	if t.Backend == "cnproc" {
		t.Skipf("it needs no types")
	}
	set, _ := backends.Parse(t.Backend)
	refuse := func(path string) {
		q, err := quark.Open(quark.Options{Backends: set, Strict: true, BTF: btfhub.Options{Path: path}})
		if err == nil {
			t.closeQueue(q)
			t.Errorf("opened with types from %s", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("the error does not name %s: %v", path, err)
		}
	}
	dir := t.TempDir()
	refuse(filepath.Join(dir, "nothing"))
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("no types at all"), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
	refuse(bad)

	raw, err := os.ReadFile(btfhub.KernelBTF)
	if err != nil {
		t.Skipf("the kernel offers no types to make a file of: %v", err)
	}
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, raw, 0o644); err != nil {
		t.Fatalf("%v", err)
	}
	q := t.open(quark.Options{BTF: btfhub.Options{Path: good}})
	if from := q.Capabilities().Types; !strings.Contains(from, good) {
		t.Errorf("types are said to come from %q", from)
	}
	if s, err := q.Stats(); err != nil || !strings.Contains(s.Types, good) {
		t.Errorf("types are said to come from %q by the statistics, %v", s.Types, err)
	}
	t.wantWorking("with types from a file")
}
