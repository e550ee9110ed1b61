package backends

import (
	"slices"
	"strings"
	"testing"
)

// TestNames checks that each backend has a bit, a name and an entry in the list of this system.
func TestNames(t *testing.T) {
	var all Set
	for _, n := range names {
		if n.backend&all != 0 || n.backend&(n.backend-1) != 0 {
			t.Errorf("%s: %#x is not a single, unused bit", n.name, uint16(n.backend))
		}
		all |= n.backend
		if set, err := Parse(n.name); err != nil || set != n.backend {
			t.Errorf("Parse(%q): got %v, error %v", n.name, set, err)
		}
		if b, ok := backends[n.backend]; backends != nil && (!ok || b.open == nil || b.check == nil || b.options == "") {
			t.Errorf("%s: missing in the list of this system", n.name)
		}
	}
	if all != Every || len(backends) > len(names) {
		t.Errorf("names has backends %#x, Every is %#x, the list has %d", uint16(all), uint16(Every), len(backends))
	}
	if got := All.Names(); !slices.Equal(got, []string{"ebpf", "kprobe", "cnproc"}) || !strings.HasPrefix(Every.String(), All.String()) {
		t.Errorf("got default %s of %s", got, Every)
	}
	if set, err := Parse("nothing"); err == nil || set != 0 || !strings.Contains(err.Error(), Every.String()) {
		t.Errorf("Parse of an unknown name: got %v, error %v", set, err)
	}
}
