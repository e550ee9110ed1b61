package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A legend of any number of names ends within the drawing, which is well-formed and has the colours
// of both pages in the style sheet.
func TestLegendFits(t *testing.T) {
	var names []string
	for _, s := range series {
		names = append(names, s.name, "<other>")
		p := New("a & b")
		p.LegendBelow(names)
		svg := string(p.End())
		for _, m := range regexp.MustCompile(`<text x="([0-9.]+)" y="[0-9]+" font-size="([0-9.]+)"`).FindAllStringSubmatch(svg, -1) {
			x, err := strconv.ParseFloat(m[1], 64)
			if err != nil || x > Width {
				t.Errorf("%d names: one is at %s", len(names), m[1])
			}
		}
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if style := string(Style()); strings.Count(style, "--"+Of(s.name).name+":") < 2 {
			t.Errorf("%s: the style sheet has not both colours of %s", s.name, Of(s.name).name)
		}
	}
}
