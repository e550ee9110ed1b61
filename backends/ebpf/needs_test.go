package ebpf

import (
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/btfhub"
)

// TestFieldsNeedWhatIsTaken checks that btfhub.Needed has all members that decide whether a field
// can be read.
func TestFieldsNeedWhatIsTaken(t *testing.T) {
	taken := btfhub.Needed()
	for _, f := range fieldSources {
		for one := range strings.SplitSeq(f.needs, anyOther) {
			if f.needs != "" && !slices.Contains(taken, one) {
				t.Errorf("%v: %s is not in btfhub.Needed", f.field, one)
			}
		}
	}
}
