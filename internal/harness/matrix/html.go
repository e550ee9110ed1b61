package matrix

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"seconds": seconds, "mark": func(s record.State) string { return marks[s] },
}).Parse(reportHTML))

var marks = map[record.State]string{
	record.Pass: "✓", record.Skip: "s", record.Fail: "✗", record.Crash: "crash", record.Hang: "hang",
	record.BootFail: "boot", record.Lost: "lost",
}

// page is what the template shows.
type page struct {
	Results
	Passed, Failed, Skipped int
	Changes                 []Change
	Columns                 []column // one for each guest
	Tests, Features         []string // of any guest
}

// column is a guest, with a column for each of its backends.
type column struct {
	Outcome
	ID       string // of its log; with the index of a cell, of the cell's log
	Release  string
	Backends []string
	Text     string // of its console
}

// Cell returns the cell of a test on a backend with the ID of its log, or nil.
func (c column) Cell(test, backend string) any {
	i := slices.IndexFunc(c.Cells, func(c Cell) bool { return c.Test == test && c.Backend == backend })
	if i < 0 {
		return nil
	}
	return struct {
		Cell
		ID string
	}{c.Cells[i], fmt.Sprintf("%s-%d", c.ID, i)}
}

// Has says whether the kernel has a feature: "yes", "no", or "" where that is not known.
func (c column) Has(feature string) string {
	if c.Hello == nil {
		return ""
	}
	switch has, known := c.Hello.Features[feature]; {
	case has:
		return "yes"
	case known:
		return "no"
	}
	return ""
}

// maxConsole bounds how many bytes of a console a page holds, from its end.
const maxConsole = 64 << 10

// HTML returns a page that needs no other file: kernels x backends x tests, each cell with a link
// to its log. dir has the consoles.
func (r Results) HTML(dir string, changes []Change) ([]byte, error) {
	p := page{Results: r, Changes: changes}
	p.Passed, p.Failed, p.Skipped = r.Count()
	features := make(map[string]bool)
	for i, g := range r.Guests {
		c := column{Outcome: g, ID: fmt.Sprintf("g%d", i), Release: g.release(), Text: consoleText(filepath.Join(dir, filepath.FromSlash(g.Log)))}
		if g.Hello != nil {
			maps.Copy(features, g.Hello.Features)
		}
		for _, b := range r.columns() {
			if len(g.Count(b)) > 0 {
				c.Backends = append(c.Backends, b)
			}
		}
		if len(c.Backends) == 0 {
			c.Backends = []string{NoBackend}
		}
		p.Columns = append(p.Columns, c)
		for _, c := range g.Cells {
			if !slices.Contains(p.Tests, c.Test) {
				p.Tests = append(p.Tests, c.Test)
			}
		}
	}
	p.Features = slices.Sorted(maps.Keys(features))
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, p)
	return b.Bytes(), err
}

// consoleText returns the end of a console log.
func consoleText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return record.CutLog(strings.ToValidUTF8(string(b), "?"), maxConsole)
}
