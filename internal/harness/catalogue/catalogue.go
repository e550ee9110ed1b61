// Package catalogue is the list of kernels that quark is tested on. A row identifies a kernel by
// series, flavour and architecture.
package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Row is a row of the catalogue. It identifies a kernel, not the package that has it today.
type Row struct {
	Name    string   `json:"name"`
	Series  string   `json:"series"`  // x.y, or "newest" for whatever the suites have
	Flavour string   `json:"flavour"` // cloud, rt, or generic: the one without a suffix
	Arch    string   `json:"arch"`    // Debian's name, which is GOARCH's too
	Suites  []string `json:"suites"`  // tried in this order until one has the series
	Default bool     `json:"default,omitempty"`

	// GoTests means that the default set runs Go tests on the kernel, too: the oldest one only,
	// as they take as long as quark-test, and go test runs most of them on the host's newer
	// kernel.
	GoTests bool `json:"go_tests,omitempty"`

	// Features are the features that a guest must have, by their names in its hello record.
	Features []string `json:"features,omitempty"`

	// Built means that the image is built from Debian's source, as no package has it.
	Built bool `json:"built,omitempty"`

	// BTFFile is the name of the file with the types of a kernel without types: a link beside
	// the image's.
	BTFFile string `json:"btf_file,omitempty"`

	// What is known of a local kernel: its distribution, "" if unknown; that it has no types,
	// and there is no file with them; and that quark's own archive has not.
	Distro     string `json:"-"`
	NoBTF      bool   `json:"-"`
	Unarchived bool   `json:"-"`
}

// Newest is the series of a row that matches any series.
const Newest = "newest"

//go:embed catalogue.json
var embedded []byte

// Rows returns the catalogue.
func Rows() ([]Row, error) { return Parse(embedded) }

// Parse reads a catalogue.
func Parse(data []byte) ([]Row, error) {
	var rows []Row
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("parse the catalogue: %w", err)
	}
	seen := make(map[string]bool)
	for _, r := range rows {
		if r.Name == "" || r.Series == "" || r.Flavour == "" || r.Arch == "" || len(r.Suites) == 0 {
			return nil, fmt.Errorf("catalogue row %q: name, series, flavour, arch and suites are wanted", r.Name)
		}
		if seen[r.Name] {
			return nil, fmt.Errorf("catalogue row %q is there twice", r.Name)
		}
		seen[r.Name] = true
	}
	return rows, nil
}

// Link returns the path of the row's image below the directory of images.
func (r Row) Link() string {
	return path.Join(r.Arch, strings.TrimSuffix(r.Name, "-"+r.Arch))
}

// Select returns the rows of the given architectures, of all without one, that match any of the
// patterns, in their order. A pattern (see path.Match) matches a name with or without its
// architecture, but a built row only if it is the whole name. Without a pattern Select returns the
// default rows. A pattern that matches nothing is an error.
func Select(rows []Row, arches, patterns []string) ([]Row, error) {
	used := make([]bool, len(patterns))
	var selected []Row
	for _, r := range rows {
		if len(arches) > 0 && !slices.Contains(arches, r.Arch) {
			continue
		}
		take := len(patterns) == 0 && r.Default
		for i, pattern := range patterns {
			for _, name := range []string{r.Name, strings.TrimSuffix(r.Name, "-"+r.Arch)} {
				ok, err := path.Match(pattern, name)
				if err != nil {
					return nil, fmt.Errorf("pattern %q: %w", pattern, err)
				}
				if ok && (!r.Built || pattern == name) {
					take, used[i] = true, true
				}
			}
		}
		if take {
			selected = append(selected, r)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("no kernel %q in the catalogue (go run ./kernel_images -l lists it)", patterns[i])
	}
	return selected, nil
}
