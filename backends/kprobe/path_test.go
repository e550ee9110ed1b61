package kprobe

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// tree is a path as the kernel has it: mounts, from that of the path upwards,
// each with names from the bottom up.
type tree [][]string

const testToMount = 32

// fill makes the slots that probes would fetch of a tree, up to levels names of
// each mount. Root tells how many names above the last mount's root the
// process's root is: 0 for that mount's root itself.
func (tr tree) fill(v *values, has *slotSet, levels int) {
	mount := func(m int) uint64 { return uint64(0x10000 * (m + 1)) }
	dentry := func(m, level int) uint64 { return uint64(0x1000000*(m+1) + 0x100*(level+1)) }
	set := func(s slot, n uint64) { has.add(s); v.number[s] = n }
	for m, names := range tr {
		if m >= pathMounts {
			break
		}
		at := mount(m)
		if m == 0 {
			at += testToMount
		}
		set(pathMntSlot(slotCwd, m), at)
		set(pathMntRootSlot(slotCwd, m), dentry(m, len(names)))
		for level := 0; level <= min(levels, pathLevels); level++ {
			set(pathDentrySlot(slotCwd, m, level), dentry(m, min(level, len(names))))
			if level < levels && level < pathLevels {
				name := "/"
				if level < len(names) {
					name = names[level]
				}
				s := pathNameSlot(slotCwd, m, level)
				has.add(s)
				v.text[s] = span{uint32(len(v.bytes)), uint32(len(name))}
				v.bytes = append(v.bytes, name...)
			}
		}
	}
	last := len(tr) - 1
	set(slotRootDentry, dentry(last, len(tr[last])))
	set(slotRootMnt, mount(last)+testToMount)
}

// path is what the walker should make of it, the slow way.
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
	v := &values{}
	for range 20000 {
		tr := make(tree, 1+rnd.IntN(pathMounts+1))
		for m := range tr {
			for range rnd.IntN(pathLevels + 3) {
				tr[m] = append(tr[m], fmt.Sprintf("n%d", rnd.IntN(1000)))
			}
		}
		levels := 1 + rnd.IntN(pathLevels)
		var has slotSet
		v.bytes = v.bytes[:0]
		tr.fill(v, &has, levels)
		w := walker{toMount: testToMount}
		result := w.walk(v, &has, slotCwd)
		got := make([]byte, w.length(result))
		w.write(got)
		want, wantResult := tr.path(levels)
		if result != wantResult || string(got) != want && !(w.n == 0 && result == pathCut) {
			t.Fatalf("%v, %d levels: %q (%d), not %q (%d)", tr, levels, got, result, want, wantResult)
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add([]byte("some bytes for the numbers of a path"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		v := &values{bytes: []byte("name")}
		var has slotSet
		for s := slotRootDentry; s < slotExe; s++ {
			if len(data) > 0 {
				b := data[int(s)*int(step)%len(data)]
				v.number[s] = uint64(b & 7) // few values, so that they meet
				if b&8 == 0 {
					has.add(s)
				}
				v.text[s] = span{0, uint32(b >> 6)}
			}
		}
		w := walker{toMount: 1}
		r := w.walk(v, &has, slotCwd)
		got := make([]byte, w.length(r))
		w.write(got)
		if r == pathWhole && (len(got) == 0 || got[0] != '/') {
			t.Errorf("%q is whole", got)
		}
	})
}
