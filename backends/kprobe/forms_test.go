package kprobe

import (
	"testing"

	"github.com/quark-linux/quark/internal/proctext"
)

// wide returns offsets as long as in the largest structs.
type wide struct{}

func (wide) Bytes(string) (uint32, bool) { return 3456, true }
func (wide) Value(string) (int64, bool)  { return 3, true }

// All definitions keep the kernel's limits.
func TestFamilyLimits(t *testing.T) {
	for _, f := range families {
		for _, h := range f.hooks {
			b := builder{kernel: kernel{offsets: wide{}, reads: maxReads, threads: true, cgroups: proctext.UnifiedCgroup}}
			if h.args != nil {
				h.args(&b)
			}
			f.state(&b, &h)
			all := [][]fetch{b.args}
			for _, text := range f.texts {
				all = append(all, text.probes(&b)...)
			}
			for _, args := range all {
				d := definition{"quark_12345_1", f.name + "_argv0", h.symbol, args, 1<<64 - 1}
				if err := d.check(maxReads); err != nil && !h.tracepoint {
					t.Errorf("%s: %v", h.symbol, err)
				}
			}
		}
	}
}

// On a kernel that warns of reads at invalid addresses, no probe reads the pids of levels that a
// process does not have: the memory behind them has no addresses.
func TestNoWildReads(t *testing.T) {
	for _, warns := range []bool{false, true} {
		b := builder{kernel: kernel{offsets: wide{}, reads: maxReads, warns: warns}}
		b.addPIDNamespace(argument(0))
		b.addReboots(argument(0))
		if got := len(b.args) > 1; got == warns { // one is the level
			t.Errorf("warns %v: %d fetches", warns, len(b.args))
		}
	}
}
