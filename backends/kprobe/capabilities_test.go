package kprobe

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// without describes the kinds of a source with probes of all families but one, or none for -1.
func without(missing int) *Source {
	s, failed := new(Source), make([]error, numFamilies)
	for n, f := range families {
		if n == missing {
			failed[n] = errors.New("no probe")
		} else {
			s.sets = append(s.sets, &set{family: n, kind: f.kind, symbol: "probe_" + f.name})
		}
	}
	s.describeKinds(failed)
	return s
}

// TestIncompleteKinds: where probes of some changes of ids are missing, the kind is partial, and so
// a session or a group of processes that is known may be of before.
func TestIncompleteKinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		missing int // a family
		partial bool
	}{{"all", -1, false}, {"sessions", familySID, true}, {"ids", familyIDs, true}} {
		s := without(tt.missing)
		c := &s.capabilities
		k := c.Kinds[engine.KindIDChange]
		if k.Origin != engine.OriginKernel || (k.Partial == engine.EventIDChange) != tt.partial {
			t.Errorf("without %s: %+v", tt.name, k)
		}
		if said := strings.Contains(strings.Join(c.Notes, "; "), "ID_CHANGE is incomplete: no probe"); said != tt.partial {
			t.Errorf("without %s: notes %q", tt.name, c.Notes)
		}
		if c.Kinds[engine.KindFork].Partial != 0 {
			t.Errorf("without %s: forks are partial", tt.name)
		}
	}
}
