package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

// series are the colours of backends and monitors on a light and on a dark page. Those of quark
// differ for readers who are red-green colour-blind, too.
var series = []struct{ name, light, dark string }{
	{"ebpf", "#0b66b2", "#5aa9e6"},
	{"kprobe", "#c2570c", "#f0955a"},
	{"cnproc", "#5d7a1f", "#a3c65b"},
	{"audit", "#b02a5b", "#ee82a8"},
	{"forkstat", "#0b66b2", "#5aa9e6"},
	{"execsnoop", "#c2570c", "#f0955a"},
	{"exitsnoop", "#5d7a1f", "#a3c65b"},
	{"bpftrace", "#8a4fb0", "#c193e0"},
	{"perf", "#b08a00", "#e0bd45"},
	{"strace", "#b02a5b", "#ee82a8"},
	{"acct", "#6b7280", "#a7afbb"},
}

// Colour is one of the page's style sheet, with its value on a light page.
type Colour struct{ name, light string }

// The colours of what is not of a backend or monitor.
var (
	paper = Colour{"paper", "#fff"}
	soft  = Colour{"soft", "#444c56"}
	axis  = Colour{"axis", "#98a2ad"}
	grid  = Colour{"grid", "#e3e7eb"}
)

// Of returns the colour of a backend or a monitor. All that have none of their own share one.
func Of(name string) Colour {
	for _, s := range series {
		if s.name == name {
			return Colour{variable(name), s.light}
		}
	}
	return Colour{"of-other", "#777777"}
}

// variable returns the name of the style sheet's variable of a backend or a monitor.
func variable(name string) string { return "of-" + strings.ReplaceAll(name, ":", "-") }

// paint returns the attributes that set a property, "fill" or "stroke", to a colour.
func (c Colour) paint(property string) string {
	return fmt.Sprintf(`%s="%s" style="%s:var(--%s,%s)"`, property, c.light, property, c.name, c.light)
}

//go:embed style.css
var sheet string

// Style returns the style sheet of a page with charts.
func Style() template.CSS {
	var light, dark strings.Builder
	for _, s := range series {
		fmt.Fprintf(&light, "--%s:%s;", variable(s.name), s.light)
		fmt.Fprintf(&dark, "--%s:%s;", variable(s.name), s.dark)
	}
	return template.CSS(fmt.Sprintf(":root{%s}\n@media (prefers-color-scheme: dark){:root{%s}}\n%s", &light, &dark, sheet))
}
