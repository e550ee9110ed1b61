package kprobe

import (
	"maps"
	"strings"
	"testing"
)

func TestReadPlaces(t *testing.T) {
	const text = `0000000000000000 A fixed_percpu_data
ffffffff81000040 T one
ffffffff81000080 t two
ffffffff810000c0 t twice
ffffffff81000100 T other
ffffffff81000140 T twice
ffffffff81000180 D data
0000000000000000 T hidden
zzzz T broken
ffffffffc0000000 t one	[module]
ffffffff810001c0`
	wanted := map[string]bool{"one": true, "two": true, "twice": true, "data": true, "hidden": true, "broken": true, "": true}
	want := places{"one": 0xffffffff81000040, "two": 0xffffffff81000080}
	if got := readPlaces(strings.NewReader(text), wanted); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzReadPlaces(f *testing.F) {
	f.Add("ffffffff81000040 T one\n")
	f.Add("\n \n  \n0 T one")
	f.Fuzz(func(t *testing.T, text string) {
		for name, at := range readPlaces(strings.NewReader(text), map[string]bool{"one": true}) {
			if name != "one" || at == 0 || strings.Count(text, name) < 1 {
				t.Errorf("%q: got %s at %x", text, name, at)
			}
		}
	})
}
