package catalogue

import (
	"slices"
	"strings"
	"testing"
)

func TestCatalogue(t *testing.T) {
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	links, names := make(map[string]bool), make(map[string]bool)
	for _, r := range rows {
		if names[r.Name] || r.Name == "" || r.Series == "" || r.Flavour == "" || r.Arch == "" || len(r.Suites) == 0 || r.Image != "" && !names[r.Image] {
			t.Errorf("%s: duplicate name, missing member, or no earlier row with its image", r.Name)
		}
		names[r.Name] = true
		if links[r.Link()] == (r.Image == "") {
			t.Errorf("%s: link %s is also in another row: %v", r.Name, r.Link(), links[r.Link()])
		}
		links[r.Link()] = true
		differs := r.Lacks != nil || r.CPUs != 0 || r.Append != nil || r.Env != nil
		if IsOdd(r.Name) != differs || IsOdd(r.Name) != (r.Image != "") {
			t.Errorf("%s: no difference from other rows, or no image: %+v", r.Name, r)
		}
	}
	for _, want := range []string{"amd64/5.10-cloud", "amd64/6.1-cloud", "amd64/6.12-cloud", "amd64/newest-cloud", "arm64/6.1-cloud", "arm64/6.12-cloud"} {
		if !links[want] {
			t.Errorf("no row with the link %s", want)
		}
	}
}

func TestSelect(t *testing.T) {
	rows := []Row{{Name: "5.10-cloud-amd64"}, {Name: "6.1-cloud-amd64", Default: true}, {Name: "6.1-cloud-arm64"},
		{Name: "odd/x-amd64", Image: "5.10-cloud-amd64"}}
	for _, tt := range []struct {
		patterns []string
		want     []string
		err      string
	}{
		{nil, []string{"6.1-cloud-amd64"}, ""},
		{[]string{"*-amd64", "odd/*"}, []string{"5.10-cloud-amd64", "6.1-cloud-amd64", "odd/x-amd64"}, ""},
		{[]string{"6.1-cloud-arm64", "5*"}, []string{"5.10-cloud-amd64", "6.1-cloud-arm64"}, ""},
		{[]string{"6.2*"}, nil, `no kernel "6.2*"`},
		{[]string{"["}, nil, "syntax error"},
	} {
		got, err := Select(rows, nil, tt.patterns)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: error %v, want one with %q", tt.patterns, err, tt.err)
			}
			continue
		}
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if err != nil || !slices.Equal(names, tt.want) {
			t.Errorf("%q: %q, error %v; want %q", tt.patterns, names, err, tt.want)
		}
	}
}

// TestImages checks the rows with the wanted images, each once.
func TestImages(t *testing.T) {
	rows := []Row{{Name: "a"}, {Name: "b"}, {Name: "odd/c", Image: "a"}, {Name: "odd/d", Image: "b"}}
	var names []string
	for _, r := range Images(rows, []Row{rows[2], rows[1], rows[3]}) {
		names = append(names, r.Name)
	}
	if want := []string{"a", "b"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
