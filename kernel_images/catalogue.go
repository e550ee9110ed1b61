package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
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
}

// newest is the series of a row that takes any.
const newest = "newest"

//go:embed catalogue.json
var catalogueJSON []byte

func parseCatalogue(data []byte) ([]Row, error) {
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

// link is where the row's image is found below the images' directory.
func (r Row) link() string {
	return path.Join(r.Arch, strings.TrimSuffix(r.Name, "-"+r.Arch))
}

// selectRows returns the rows that match any of the patterns (see path.Match), in the catalogue's order; without a pattern
// the default ones. A pattern that matches nothing is an error.
func selectRows(rows []Row, patterns []string) ([]Row, error) {
	used := make([]bool, len(patterns))
	var selected []Row
	for _, r := range rows {
		take := len(patterns) == 0 && r.Default
		for i, p := range patterns {
			ok, err := path.Match(p, r.Name)
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", p, err)
			}
			if ok {
				take, used[i] = true, true
			}
		}
		if take {
			selected = append(selected, r)
		}
	}
	for i, p := range patterns {
		if !used[i] {
			return nil, fmt.Errorf("no kernel %q in the catalogue: -l lists them", p)
		}
	}
	return selected, nil
}
