package kprobe

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// describeWithout describes the kinds of a source that has probes of all families but missing; -1
// is no family.
func describeWithout(missing int) *Source {
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

// If a probe for some changes of ids is missing, the kind is partial. Then a session or process
// group in /proc may be outdated.
func TestIncompleteKinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		missing int // index of a family
		partial bool
	}{{"all", -1, false}, {"sessions", familySID, true}, {"ids", familyIDs, true}} {
		s := describeWithout(tt.missing)
		c := &s.capabilities
		k := c.Kinds[engine.KindIDChange]
		if k.Origin != engine.OriginKernel || (k.Partial == engine.EventIDChange) != tt.partial {
			t.Errorf("without %s: got %+v, want partial: %v", tt.name, k, tt.partial)
		}
		if said := strings.Contains(strings.Join(c.Notes, "; "), "ID_CHANGE is incomplete: no probe"); said != tt.partial {
			t.Errorf("without %s: got notes %q", tt.name, c.Notes)
		}
		if c.Kinds[engine.KindFork].Partial != 0 {
			t.Errorf("without %s: forks are marked as partial", tt.name)
		}
	}
}
