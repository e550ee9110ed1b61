// Package catalogue is the list of kernels that quark is tested on. A row identifies a kernel by
// series, flavour and architecture.
package catalogue

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Row is a row of the catalogue. It identifies a kernel independently of its current package.
type Row struct {
	Name    string   `json:"name"`
	Series  string   `json:"series"`  // x.y, or "newest" for the newest in the suites
	Flavour string   `json:"flavour"` // cloud, rt, or generic, whose packages have no suffix
	Arch    string   `json:"arch"`    // Debian's name, which equals GOARCH
	Suites  []string `json:"suites"`  // tried in this order until one has the series
	Default bool     `json:"default,omitempty"`

	// GoTests means that the default set also runs Go tests on the kernel. Only the oldest
	// kernel has it, because Go tests take as long as quark-test, and go test runs most of them
	// on the host's newer kernel.
	GoTests bool `json:"go_tests,omitempty"`

	// Features are the features that a guest must have, by their names in its hello record.
	Features []string `json:"features,omitempty"`

	// Image is the name of the row whose image is used, "" for this row's own image.
	Image string `json:"image,omitempty"`

	Odd

	// For a local kernel: the file with its types, if the kernel has none; whether it has
	// neither types nor such a file; and whether quark's archive lacks its types.
	BTFFile    string `json:"-"`
	NoBTF      bool   `json:"-"`
	Unarchived bool   `json:"-"`
}

// Odd lists the differences of an odd machine.
type Odd struct {
	// CPUs is the number of processors, 0 for the default. Append holds words for the kernel's
	// command line, and Env variables of the tests, as NAME=VALUE.
	CPUs   int      `json:"cpus,omitempty"`
	Append []string `json:"append,omitempty"`
	Env    []string `json:"env,omitempty"`

	// Lacks are features that a guest must not have.
	Lacks []string `json:"lacks,omitempty"`
}

// Newest is the series of a row that matches any series.
const Newest = "newest"

//go:embed catalogue.json
var embedded []byte

// Rows returns the catalogue.
func Rows() (rows []Row, err error) {
	if err := json.Unmarshal(embedded, &rows); err != nil {
		return nil, fmt.Errorf("parse the catalogue: %w", err)
	}
	return rows, nil
}

// Images returns the rows that have the images of the selected rows, each once. A row without an
// own image is replaced by the row of its image.
func Images(rows, selected []Row) (images []Row) {
	for _, r := range selected {
		if i := slices.IndexFunc(rows, func(other Row) bool { return other.Name == r.Image }); i >= 0 {
			r = rows[i]
		}
		if !slices.ContainsFunc(images, func(other Row) bool { return other.Name == r.Name }) {
			images = append(images, r)
		}
	}
	return images
}

// IsOdd reports whether a row, named with or without its architecture, imitates an odd machine.
func IsOdd(name string) bool { return strings.HasPrefix(name, "odd/") }

// Link returns the path of the row's image below the directory of images.
func (r Row) Link() string {
	return path.Join(r.Arch, strings.TrimSuffix(cmp.Or(r.Image, r.Name), "-"+r.Arch))
}

// Select returns the rows of the given architectures, or of all if none is given, that match any of
// the patterns, in the order of rows. A pattern (see path.Match) matches a name with or without its
// architecture; the pattern * matches no name that begins with odd/. Without a pattern Select
// returns the default rows. A pattern without a match is an error.
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
				if ok {
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
