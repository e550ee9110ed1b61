package glob

import (
	"fmt"
	"strings"
	"testing"
)

func Example() {
	text, _ := Compile("A*[!0-9]")
	path, err := CompilePath("/tmp/*.c")
	fmt.Println(text.Match("A/B"), text.Match("A/1"), err)
	fmt.Println(path.Match("/tmp/x.c"), path.Match("/tmp/d/x.c"))
	_, err = Compile("[")
	fmt.Println(err)
	// Output:
	// true false <nil>
	// true false
	// the pattern has [ without ]
}

func FuzzGlob(f *testing.F) {
	f.Add("/tmp/**/*.[ch]", "/tmp/a/b.c", true)
	f.Add("*a*a*a*b", strings.Repeat("a", 300), false)
	f.Fuzz(func(t *testing.T, pattern, text string, path bool) {
		only, err := compile(Quote(text), path)
		if err != nil || !only.Match(text) || only.Match(text+"a") {
			t.Errorf("quoted %q: got pattern %v, error %v", text, only, err)
		}
		g, err := compile(pattern, path)
		if err != nil {
			return
		}
		got := g.Match(text)
		if len(pattern) < 12 && len(text) < 24 && got != slowMatch(g.elements, text, path) {
			t.Errorf("pattern %q, text %q, path %v: got %v", pattern, text, path, got)
		}
	})
}

// slowMatch is a naive Match.
func slowMatch(g []element, s string, path bool) bool {
	if len(g) == 0 {
		return s == ""
	}
	if k := g[0].kind; k == anything || k == anyName {
		if slowMatch(g[1:], s, path) {
			return true
		}
		if s == "" || k == anyName && s[0] == '/' {
			return false
		}
		_, n := character(s)
		return slowMatch(g, s[n:], path)
	}
	n := g[0].matchOne(s, path)
	return n >= 0 && slowMatch(g[1:], s[n:], path)
}
