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
	"seconds": func(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) },
}).Parse(reportHTML))

// page is what the template shows.
type page struct {
	Results
	Passed, Failed, Skipped int
	Changes                 []Change
	Heads                   []head    // one for each guest
	Rows                    []pageRow // one for each test
	Features                []featureRow
	Logs                    []pageLog
}

type head struct {
	Outcome
	ID       string // of its log
	Release  string
	Backends []string
}

type pageRow struct {
	Test  string
	Cells []pageCell
}

type pageCell struct {
	State      record.State // "" for none
	ID, Title  string
	Mark, Time string
	First      bool // of its guest
}

type featureRow struct {
	Name string
	Has  []string // "yes", "no" or ""
}

type pageLog struct {
	ID, Title, Text, Repro string
	State                  record.State
	Reason                 string
}

// maxConsole bounds what a page holds of a console: its end, where it went wrong.
const maxConsole = 64 << 10

var marks = map[record.State]string{
	record.Pass: "✓", record.Skip: "s", record.Fail: "✗", record.Crash: "crash", record.Hang: "hang",
	record.BootFail: "boot", record.Lost: "lost",
}

// HTML returns a page that needs no other file: kernels x backends x tests, each cell leading to
// its log. The consoles are read from dir.
func (r Results) HTML(dir string, changes []Change) ([]byte, error) {
	p := page{Results: r, Changes: changes}
	p.Passed, p.Failed, p.Skipped = r.Count()
	var tests []string
	seen := make(map[string]bool)
	features := make(map[string]bool)
	for i, g := range r.Guests {
		h := head{Outcome: g, ID: fmt.Sprintf("g%d", i)}
		if g.Hello != nil {
			h.Release = g.Hello.Kernel
			for f := range g.Hello.Features {
				features[f] = true
			}
		}
		for _, c := range columns() {
			if n := g.Count(c); len(n) > 0 {
				h.Backends = append(h.Backends, c)
			}
		}
		if len(h.Backends) == 0 {
			h.Backends = []string{NoBackend}
		}
		p.Heads = append(p.Heads, h)
		p.Logs = append(p.Logs, pageLog{ID: h.ID, Title: g.Guest, State: g.State, Reason: g.Reason, Repro: g.Repro,
			Text: consoleText(filepath.Join(dir, filepath.FromSlash(g.Log)))})
		for _, c := range g.Cells {
			if !seen[c.Test] {
				seen[c.Test] = true
				tests = append(tests, c.Test)
			}
		}
	}
	for _, test := range tests {
		row := pageRow{Test: test}
		for i, h := range p.Heads {
			for j, backend := range h.Backends {
				cell := pageCell{First: j == 0}
				for k, c := range h.Cells {
					if c.Test != test || c.Backend != backend {
						continue
					}
					cell.State, cell.Mark = c.State, marks[c.State]
					cell.Time = fmt.Sprintf("%.1f", float64(c.DurationMS)/1000)
					cell.ID = fmt.Sprintf("c%d-%d", i, k)
					cell.Title = fmt.Sprintf("%s: %s @ %s: %s", h.Guest, test, backend, c.State)
					if c.Reason != "" {
						cell.Title += ": " + c.Reason
					}
					text := c.Log
					if text == "" {
						text = "(no log)"
					}
					p.Logs = append(p.Logs, pageLog{ID: cell.ID, Title: h.Guest + ": " + test + " @ " + backend, State: c.State,
						Reason: c.Reason, Text: text, Repro: c.Repro})
				}
				row.Cells = append(row.Cells, cell)
			}
		}
		p.Rows = append(p.Rows, row)
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		row := featureRow{Name: name}
		for _, h := range p.Heads {
			has := ""
			if h.Hello != nil {
				if v, ok := h.Hello.Features[name]; ok {
					has = map[bool]string{true: "yes", false: "no"}[v]
				}
			}
			row.Has = append(row.Has, has)
		}
		p.Features = append(p.Features, row)
	}
	var b bytes.Buffer
	if err := reportTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// consoleText returns the end of a console log.
func consoleText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if len(b) > maxConsole {
		cut := len(b) - maxConsole
		return fmt.Sprintf("[%d bytes left out]\n%s", cut, strings.ToValidUTF8(string(b[cut:]), "?"))
	}
	return strings.ToValidUTF8(string(b), "?")
}
