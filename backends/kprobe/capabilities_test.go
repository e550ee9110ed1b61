package kprobe

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// without describes the kinds of a source with probes of all families but one, or none for -1.
// ofCurrent is whether those of ids are in a function that execs call, too.
func without(missing int, ofCurrent bool) (s *Source, failed []error) {
	s, failed = new(Source), make([]error, numFamilies)
	for n, f := range families {
		if n == missing {
			failed[n] = errors.New("no probe")
		} else {
			s.sets = append(s.sets, &set{family: n, kind: f.kind, symbol: "probe_" + f.name, ofCurrent: n == familyIDs && ofCurrent})
		}
	}
	s.describeKinds(failed)
	return s, failed
}

// TestIncompleteKinds: where probes of some changes of ids are missing, the kind is partial, and so
// a session or a group of processes that is known may be of before.
func TestIncompleteKinds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		missing int // a family
		partial bool
	}{{"all", -1, false}, {"sessions", familySID, true}, {"ids", familyIDs, true}} {
		s, _ := without(tt.missing, false)
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

// A function that execs call, too, reports the changes alone that another one begins: without that
// one the kind is partial.
func TestIncompleteIDs(t *testing.T) {
	for _, tt := range []struct {
		name      string
		missing   int // a family
		ofCurrent bool
		partial   bool
	}{{"all", -1, true, false}, {"gid", familyGID, true, true}, {"uid", familyUID, true, true}, {"gid, which are told", familyGID, false, false}} {
		s, failed := without(tt.missing, tt.ofCurrent)
		s.describeIDs(failed)
		if k := s.capabilities.Kinds[engine.KindIDChange]; (k.Partial == engine.EventIDChange) != tt.partial {
			t.Errorf("%s: %+v", tt.name, k)
		}
	}
}
