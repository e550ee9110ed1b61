package engine

import (
	"fmt"
	"testing"
	"unsafe"
)

// TestInternerReturnsWhatItWasAsked requests more names than two generations hold. The names have
// all lengths, so some share places and some are dropped.
func TestInternerReturnsWhatItWasAsked(t *testing.T) {
	var in interner
	for i := range 5 * internGeneration {
		name := fmt.Appendf(nil, "%0*x", i%20, i*7919)
		if got := in.get(name); got != string(name) {
			t.Fatalf("got %[2]q, want %[1]q", name, got)
		}
		a, b := in.get(name), in.get(name)
		if len(a) > 0 && unsafe.StringData(a) != unsafe.StringData(b) {
			t.Fatalf("got two copies of %q", name)
		}
		if len(in.young) > internGeneration || len(in.old) > internGeneration {
			t.Fatalf("got %d and %d names in the generations", len(in.young), len(in.old))
		}
	}
	for i := range 5 * internGeneration { // as long as paths can be
		in.get(fmt.Appendf(nil, "%04096d", i))
	}
	if n := (len(in.young) + len(in.old)) << 12; n > 2*internBytes+1<<12 {
		t.Errorf("got %d bytes of long names", n)
	}
	if in.get(nil) != "" {
		t.Error("no bytes gave a name")
	}
}
