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

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{"seconds": seconds}).Parse(reportHTML))

// page is what the template shows.
type page struct {
	Results
	Passed, Failed, Skipped int
	Changes                 []Change
	Heads                   []head // one for each guest
	Rows                    []row  // tests, a cell for each backend of each guest
	Features                []row  // features, a cell for each guest
	Logs                    []pageLog
}

type head struct {
	Outcome
	ID       string // of its log
	Release  string
	Backends []string
}

type row struct {
	Name  string
	Cells []pageCell
}

type pageCell struct {
	State      record.State // "" for none
	ID, Title  string
	Mark, Time string
	First      bool // of its guest
}

type pageLog struct {
	ID, Title, Text, Repro string
	State                  record.State
	Reason                 string
}

// maxConsole bounds how many bytes of a console a page holds, from its end.
const maxConsole = 64 << 10

var marks = map[record.State]string{
	record.Pass: "✓", record.Skip: "s", record.Fail: "✗", record.Crash: "crash", record.Hang: "hang",
	record.BootFail: "boot", record.Lost: "lost",
}

// HTML returns a page that needs no other file: kernels x backends x tests, each cell with a link
// to its log. dir has the consoles.
func (r Results) HTML(dir string, changes []Change) ([]byte, error) {
	p := page{Results: r, Changes: changes}
	p.Passed, p.Failed, p.Skipped = r.Count()
	features := make(map[string]bool)
	var tests []string
	for i, g := range r.Guests {
		h := head{Outcome: g, ID: fmt.Sprintf("g%d", i), Release: g.release()}
		if g.Hello != nil {
			maps.Copy(features, g.Hello.Features)
		}
		for _, c := range columns() {
			if len(g.Count(c)) > 0 {
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
			if !slices.Contains(tests, c.Test) {
				tests = append(tests, c.Test)
			}
		}
	}
	for _, test := range tests {
		line := row{Name: test}
		for i := range p.Heads {
			for j, backend := range p.Heads[i].Backends {
				cell := p.cell(i, test, backend)
				cell.First = j == 0
				line.Cells = append(line.Cells, cell)
			}
		}
		p.Rows = append(p.Rows, line)
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		line := row{Name: name}
		for _, h := range p.Heads {
			mark := ""
			if h.Hello != nil {
				if has, known := h.Hello.Features[name]; known {
					mark = map[bool]string{true: "yes", false: "no"}[has]
				}
			}
			line.Cells = append(line.Cells, pageCell{Mark: mark})
		}
		p.Features = append(p.Features, line)
	}
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, p)
	return b.Bytes(), err
}

// cell returns the cell of a test on a backend in the ith guest, and adds its log to the page.
func (p *page) cell(i int, test, backend string) pageCell {
	h := p.Heads[i]
	k := slices.IndexFunc(h.Cells, func(c Cell) bool { return c.Test == test && c.Backend == backend })
	if k < 0 {
		return pageCell{}
	}
	c := h.Cells[k]
	log := pageLog{ID: fmt.Sprintf("c%d-%d", i, k), Title: h.Guest + ": " + test + " @ " + backend, State: c.State, Reason: c.Reason,
		Text: c.Log, Repro: c.Repro}
	if log.Text == "" {
		log.Text = "(no log)"
	}
	p.Logs = append(p.Logs, log)
	title := log.Title + ": " + string(c.State)
	if c.Reason != "" {
		title += ": " + c.Reason
	}
	return pageCell{State: c.State, ID: log.ID, Title: title, Mark: marks[c.State], Time: seconds(c.DurationMS)}
}

// consoleText returns the end of a console log.
func consoleText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return lastBytes(string(b), maxConsole)
}

// lastBytes returns the last bytes of a text, and says how many it leaves out.
func lastBytes(s string, limit int) string {
	note := ""
	if out := len(s) - limit; out > 0 {
		note, s = fmt.Sprintf("[%d bytes left out]\n", out), s[out:]
	}
	return note + strings.ToValidUTF8(s, "?")
}
