package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Row of the catalogue: which kernel is meant, not which package has it today.
type Row struct {
	Name    string   `json:"name"`
	Series  string   `json:"series"`  // x.y, or "newest" for whatever the suites have
	Flavour string   `json:"flavour"` // cloud, rt, or generic: the one without a suffix
	Arch    string   `json:"arch"`    // Debian's name, which is GOARCH's too
	Suites  []string `json:"suites"`  // asked one after the other until one has the series
	Default bool     `json:"default,omitempty"`

	// Features are what a guest must offer, by the names in its hello record. It is held
	// against what it does offer.
	Features []string `json:"features,omitempty"`

	// Built says that no package has the image: it is built from Debian's source.
	Built bool `json:"built,omitempty"`

	// BTFFile names the file with the types of a kernel that was built without: a link beside
	// the image's.
	BTFFile string `json:"btf_file,omitempty"`
}

// Newest is the series of a row that takes any.
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

// Link is where the row's image is found below the directory of images.
func (r Row) Link() string {
	return path.Join(r.Arch, strings.TrimSuffix(r.Name, "-"+r.Arch))
}

// Select returns the rows of the architectures given, or of all when there are none, that match any
// of the patterns, in the catalogue's order; without a pattern the default ones. A pattern that
// matches nothing is an error.
func Select(rows []Row, arches, patterns []string) ([]Row, error) {
	p := NewPatterns(patterns)
	var selected []Row
	for _, r := range rows {
		if len(arches) > 0 && !slices.Contains(arches, r.Arch) {
			continue
		}
		if take, err := p.Match(r); err != nil {
			return nil, err
		} else if take {
			selected = append(selected, r)
		}
	}
	if bad := p.Unused(); bad != "" {
		return nil, fmt.Errorf("no kernel %q in the catalogue (go run ./kernel_images -l lists it)", bad)
	}
	return selected, nil
}

// Patterns select rows by name: see path.Match.
type Patterns struct {
	list []string
	used []bool
}

// NewPatterns makes them from words.
func NewPatterns(list []string) *Patterns { return &Patterns{list, make([]bool, len(list))} }

// Match tells whether a row matches one of the patterns, by its name or by the name without the
// architecture, or is a default one and there is no pattern. A row that has to be built matches its
// very name only.
func (p *Patterns) Match(r Row) (bool, error) {
	take := len(p.list) == 0 && r.Default
	for i, pattern := range p.list {
		for _, name := range []string{r.Name, strings.TrimSuffix(r.Name, "-"+r.Arch)} {
			ok, err := path.Match(pattern, name)
			if err != nil {
				return false, fmt.Errorf("pattern %q: %w", pattern, err)
			}
			if ok && (!r.Built || pattern == name) {
				take, p.used[i] = true, true
			}
		}
	}
	return take, nil
}

// Unused returns the first pattern that has matched nothing, or "".
func (p *Patterns) Unused() string {
	for i, used := range p.used {
		if !used {
			return p.list[i]
		}
	}
	return ""
}
