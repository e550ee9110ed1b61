package matrix

import (
	"bytes"
	"strings"
	"testing"
)

func TestCoverage(t *testing.T) {
	var c Coverage
	for run, profile := range map[string]string{
		"host": "mode: set\nm/a/x.go:1.1,3.2 2 1\nm/a/x.go:4.1,5.2 1 0\nm/b/y.go:1.1,2.2 1 0\n",
		"k1":   "mode: set\nm/a/x.go:4.1,5.2 1 7\nm/b/y.go:1.1,2.2 1 0\n",
		"k2":   "mode: set\nm/a/x.go:4.1,5.2 1 0\n",
	} {
		if err := c.AddProfile(run, strings.NewReader(profile)); err != nil {
			t.Fatal(err)
		}
	}
	c.runs = []string{"host", "k1", "k2"}
	var b bytes.Buffer
	if err := c.WriteProfile(&b); err != nil {
		t.Fatal(err)
	}
	if want := "mode: set\nm/a/x.go:1.1,3.2 2 1\nm/a/x.go:4.1,5.2 1 1\nm/b/y.go:1.1,2.2 1 0\n"; b.String() != want {
		t.Errorf("profile %q, want %q", &b, want)
	}
	b.Reset()
	if err := c.Table(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := "package all runs host k1 k2|all 75.0 % 50.0 % 25.0 % 0.0 %|m/a 100.0 % 66.7 % 33.3 % 0.0 %|m/b 0.0 % 0.0 % 0.0 % 0.0 %"
	if strings.Join(got, "|") != want {
		t.Errorf("table\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	b.Reset()
	if err := c.OnlySome(&b, func(run string) bool { return run != "host" }); err != nil {
		t.Fatal(err)
	}
	if b.String() != "m/a/x.go:4-5  k1\n" {
		t.Errorf("lines of some kernels: %q", &b)
	}
	for _, bad := range []string{"x", "a b c", "a 1 x"} {
		if err := c.AddProfile("bad", strings.NewReader(bad)); err == nil {
			t.Errorf("%q is a profile", bad)
		}
	}
}
