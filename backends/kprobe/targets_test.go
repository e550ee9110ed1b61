package kprobe

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/proctext"
)

// recorder is an offsets that records each requested member.
type recorder struct {
	asked map[string]bool
	lacks []string
}

func (r *recorder) Bytes(name string) (uint32, bool) {
	r.asked[name] = true
	return 8, !slices.Contains(r.lacks, name)
}

func (r *recorder) Value(name string) (int64, bool) {
	r.asked[name] = true
	return 1, true
}

// TestTargetsAreRead checks that a probe or an eBPF program reads each target of btfhub, and that
// the probes read no other members.
func TestTargetsAreRead(t *testing.T) {
	asked := map[string]bool{"mount.mnt": true} // read by Source.open
	for _, cgroups := range []proctext.Hierarchy{proctext.UnifiedCgroup, proctext.PIDsCgroup} {
		b := builder{kernel: kernel{offsets: &recorder{asked: asked}, reads: 10, cgroups: cgroups, threads: true}}
		for _, f := range families {
			for _, h := range f.hooks {
				if h.args != nil {
					h.args(&b)
				}
				f.state(&b, &h)
			}
			for _, text := range f.texts {
				text.probes(&b)
			}
		}
	}
	members, err := os.ReadFile("../../btfhub/members.txt")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("compares two packages' sources: " + err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Fields(string(members))
	for _, target := range btfhub.Targets() {
		if !asked[target.Name] && !slices.Contains(programs, target.Name) {
			t.Errorf("no probe or program reads %s: remove it from the targets", target.Name)
		}
		delete(asked, target.Name)
	}
	for name := range asked {
		t.Errorf("a probe reads %s, which is not a target", name)
	}
}
