package backends

import (
	"slices"
	"strings"
	"testing"
)

// TestNames: each backend has a bit, a name and an entry in the list of this system.
func TestNames(t *testing.T) {
	var all Set
	for _, n := range names {
		if n.backend&all != 0 || n.backend&(n.backend-1) != 0 {
			t.Errorf("%s: %#x is no bit of its own", n.name, uint16(n.backend))
		}
		all |= n.backend
		if set, err := Parse(n.name); err != nil || set != n.backend {
			t.Errorf("%s: %v, %v", n.name, set, err)
		}
		if b, ok := backends[n.backend]; backends != nil && (!ok || b.open == nil || b.check == nil || b.options == "") {
			t.Errorf("%s: not in the list of this system", n.name)
		}
	}
	if all != Every || len(backends) > len(names) {
		t.Errorf("the names are of %#x, Every is %#x, %d in the list", uint16(all), uint16(Every), len(backends))
	}
	if got := All.Names(); !slices.Equal(got, []string{"ebpf", "kprobe", "cnproc"}) || !strings.HasPrefix(Every.String(), All.String()) {
		t.Errorf("by default %s, of %s", got, Every)
	}
	if set, err := Parse("nothing"); err == nil || set != 0 || !strings.Contains(err.Error(), Every.String()) {
		t.Errorf("%v, %v", set, err)
	}
}
