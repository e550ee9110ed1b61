package kprobe

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
)

// wideOffsets returns offsets with as many digits as in the largest structs.
type wideOffsets struct{}

func (wideOffsets) Bytes(string) (uint32, bool) { return 3456, true }
func (wideOffsets) Value(string) (int64, bool)  { return 3, true }

// If the kernel accepts no arrays, each value is one argument. Each definition stays within the
// kernel's limits.
func TestSingles(t *testing.T) {
	for _, singles := range []bool{false, true} {
		for _, f := range families {
			for _, h := range f.hooks {
				b := builder{kernel: kernel{offsets: wideOffsets{}, reads: maxReads, singles: singles, threads: true, cgroups: proctext.UnifiedCgroup}}
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
						t.Errorf("%s, singles=%v: %v", h.symbol, singles, err)
					}
					for _, a := range args {
						if singles && a.count > 0 {
							t.Errorf("%s fetches an array: %s", h.symbol, a)
						}
					}
				}
			}
		}
	}
}

// A chunk that is fetched word by word is one chunk in the layout.
func TestChunkOfWords(t *testing.T) {
	b := builder{kernel: kernel{offsets: wideOffsets{}, reads: maxReads, singles: true}}
	b.addChunk(1, argument(0).at(8))
	event := &tracefs.Event{Name: "argv", ID: 7}
	for n, a := range b.args {
		if want := fmt.Sprintf("f%dw%d=+%d(+8(%s))", slotArgv+1, n+1, chunkSize+8*n, argument(0)); a.String() != want {
			t.Errorf("got %s, want %s", a, want)
		}
		event.Fields = append(event.Fields, tracefs.Field{Name: a.name(), Offset: 16 + 8*n, Size: 8})
	}
	l, err := newLayout(b.args, event)
	if err != nil || len(l.places) != 1 || l.size != 16+chunkSize {
		t.Fatalf("got layout %+v, error %v", l, err)
	}
	if p := l.places[0]; p.kind != placeChunk || p.slot != slotArgv+1 || p.off != 16 {
		t.Errorf("got place %+v", p)
	}
	event.Fields[9].Offset += 8
	if _, err := newLayout(b.args, event); err == nil {
		t.Error("newLayout accepted a chunk of words that are not adjacent")
	}
}

// Old kernels store 0 for an unreadable word. If the page of the word has other values, the 0 is a
// number of empty arguments. Otherwise the arguments end there.
func TestZeroWords(t *testing.T) {
	s, c, probes := newOfflineSource(t, testFormats)
	s.sets[familyExec].zeroes = true
	for name, tt := range map[string]struct {
		start uint64        // address of the arguments
		words func(int) int // value of each word
		want  int           // known bytes of 2000, or -1 for unknown arguments
	}{
		"all read":               {4096, func(int) int { return 1 }, 2000},
		"none read":              {4096, func(int) int { return 0 }, -1},
		"empty arguments":        {4096, func(n int) int { return btoi(n == 0 || n > 200) }, 2000},
		"second page not read":   {8192 - 800, func(n int) int { return btoi(n < 100) }, 800},
		"word across, not read":  {8192 - 804, func(n int) int { return btoi(n < 100) }, 800},
		"second page was read":   {8192 - 804, func(n int) int { return btoi(n < 50 || n > 150) }, 2000},
		"first page not read":    {8192 - 800, func(n int) int { return btoi(n >= 100) }, -1},
		"only before the second": {8192 - 800, func(n int) int { return btoi(n == 99) }, 800},
	} {
		c.now.set = nil
		var l conform.Events
		for _, p := range s.sets[familyExec].probes {
			raw := record(probes[p.def.name], map[slot]uint64{slotTGID: 7, slotTID: 7, slotArgStart: tt.start, slotArgEnd: tt.start + 2000}, nil)
			for _, pl := range p.layout.places {
				for at := 0; pl.kind == placeChunk && at < chunkSize; at += 8 {
					binary.NativeEndian.PutUint64(raw[int(pl.off)+at:], uint64(tt.words((int(pl.slot-slotArgv)*chunkSize+at)/8)))
				}
			}
			s.sample(c, &l, &perf.Sample{Time: 1, Count: uint64(len(name)), Raw: raw})
		}
		if len(l) != 1 {
			t.Fatalf("%s: got %d events, want 1", name, len(l))
		}
		got := -1
		if l[0].Task.Known.Has(engine.FieldArgs) {
			got = len(l[0].Bytes(engine.FieldArgs))
		}
		if got != tt.want || l[0].Task.Truncated.Has(engine.FieldArgs) != (got >= 0 && got < 2000) {
			t.Errorf("%s: got %d known bytes, want %d", name, got, tt.want)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Some kernels warn about reads at invalid addresses. There, no probe reads the pids of levels that
// the process does not have, as the memory behind the last pid is no address.
func TestNoWildReads(t *testing.T) {
	for _, warns := range []bool{false, true} {
		b := builder{kernel: kernel{offsets: wideOffsets{}, reads: maxReads, warns: warns}}
		b.addPIDNamespace(argument(0))
		b.addReboots(argument(0))
		if got := len(b.args) > 1; got == warns { // the level is the first argument
			t.Errorf("warns=%v: got %d fetches", warns, len(b.args))
		}
	}
}
