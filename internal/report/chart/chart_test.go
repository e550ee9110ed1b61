package chart

import (
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"strings"
	"testing"
)

// A drawing is well-formed and has its texts, even with names and values that are special in HTML
// or for the scale.
func TestDrawings(t *testing.T) {
	for name, c := range map[string]struct {
		svg  template.HTML
		want []string
	}{
		"bars": {Bars("a & b", []Bar{{Name: "<ebpf>", Value: 4, Low: 3, High: 6, Text: "4 us"}, {Name: "forkstat", Text: "0"}}),
			[]string{"a &amp; b", "&lt;ebpf&gt;", ">4 us<", ">0<"}},
	} {
		for _, want := range c.want {
			if !strings.Contains(string(c.svg), want) {
				t.Errorf("%s: %q is not in %s", name, want, c.svg)
			}
		}
		if strings.Contains(string(c.svg), "NaN") || strings.Contains(string(c.svg), "Inf") {
			t.Errorf("%s: %s", name, c.svg)
		}
		for d := xml.NewDecoder(strings.NewReader(string(c.svg))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if svg := Bars("nothing", []Bar{{Name: "a"}}); svg != "" {
		t.Errorf("bars without a value: %s", svg)
	}
}
