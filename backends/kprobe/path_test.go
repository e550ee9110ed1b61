package kprobe

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// tree is a path as the kernel stores it: a list of mounts, the path's mount first. Each mount has
// the names from the path up to the root of the mount.
type tree [][]string

const testToMount = 32

// fill sets the slots that probes fetch for a path, with at most levels names for each mount. Root
// is the number of names from the root of the last mount to the root of the process; 0 means that
// the roots are equal.
func (tr tree) fill(r *testRecord, levels int) {
	mount := func(m int) uint64 { return uint64(0x10000 * (m + 1)) }
	dentry := func(m, level int) uint64 { return uint64(0x1000000*(m+1) + 0x100*(level+1)) }
	for m, names := range tr {
		if m >= pathMounts {
			break
		}
		at := mount(m)
		if m == 0 {
			at += testToMount
		}
		r.set(pathMntSlot(slotCwd, m), at)
		r.set(pathMntRootSlot(slotCwd, m), dentry(m, len(names)))
		for level := 0; level <= min(levels, pathLevels); level++ {
			r.set(pathDentrySlot(slotCwd, m, level), dentry(m, min(level, len(names))))
			if level < levels && level < pathLevels {
				name := "/"
				if level < len(names) {
					name = names[level]
				}
				r.setText(pathNameSlot(slotCwd, m, level), name)
			}
		}
	}
	last := len(tr) - 1
	r.set(slotRootDentry, dentry(last, len(tr[last])))
	r.set(slotRootMnt, mount(last)+testToMount)
}

// path returns the result that the walker must return. It uses a naive algorithm.
func (tr tree) path(levels int) (string, pathResult) {
	var names []string
	for m, part := range tr {
		if m >= pathMounts {
			return strings.Join(reversed(names), "/"), pathCut
		}
		for level, name := range part {
			if level >= min(levels, pathLevels) {
				return strings.Join(reversed(names), "/"), pathCut
			}
			names = append(names, name)
		}
	}
	return "/" + strings.Join(reversed(names), "/"), pathWhole
}

func reversed(s []string) []string {
	r := make([]string, len(s))
	for i := range s {
		r[len(s)-1-i] = s[i]
	}
	return r
}

func TestWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		tr := make(tree, 1+rnd.IntN(pathMounts+1))
		for m := range tr {
			for range rnd.IntN(pathLevels + 3) {
				tr[m] = append(tr[m], fmt.Sprintf("n%d", rnd.IntN(1000)))
			}
		}
		levels := 1 + rnd.IntN(pathLevels)
		r := newTestRecord()
		tr.fill(r, levels)
		w := walker{toMount: testToMount}
		v := r.values()
		result := w.walk(&v, slotCwd)
		got := make([]byte, w.length(result))
		w.write(got)
		want, wantResult := tr.path(levels)
		if result != wantResult || string(got) != want && !(w.n == 0 && result == pathCut) {
			t.Fatalf("%v, %d levels: got %q (%d), want %q (%d)", tr, levels, got, result, want, wantResult)
		}
	}
}

// A path that does not pass the root of the process is unknown.
func TestWalkOutOfReach(t *testing.T) {
	for _, tr := range []tree{{{"inside"}}, {{}}, {{"a", "b"}, {"c"}}} {
		r := newTestRecord()
		tr.fill(r, pathLevels)
		top := uint64(0x10000 * len(tr))
		r.set(pathMntSlot(slotCwd, len(tr)), top)
		if len(tr) > 1 {
			r.set(pathMntSlot(slotCwd, len(tr)-1), top)
		}
		r.set(slotRootMnt, 0x990000)
		v := r.values()
		w := walker{toMount: testToMount}
		if got := w.walk(&v, slotCwd); got != pathUnknown {
			t.Errorf("%v: got result %d, want pathUnknown", tr, got)
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte("some bytes for the numbers of a path"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		record := newTestRecord()
		for s := slotRootDentry; s < slotExe; s++ {
			if len(data) > 0 {
				b := data[int(s)*int(step)%len(data)]
				switch {
				case b&8 != 0: // not fetched
				case b&16 != 0:
					record.setText(s, "name"[:b>>6])
				default:
					record.set(s, uint64(b&7)) // small numbers, some are equal
				}
			}
		}
		w := walker{toMount: 1}
		v := record.values()
		r := w.walk(&v, slotCwd)
		got := make([]byte, w.length(r))
		w.write(got)
		if r == pathWhole && (len(got) == 0 || got[0] != '/') {
			t.Errorf("got pathWhole for %q", got)
		}
	})
}
