package matrix

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/report"
)

var marks = map[record.State]string{
	record.Pass: "✓", record.Skip: "s", record.Fail: "✗", record.Crash: "crash", record.Hang: "hang",
	record.BootFail: "boot", record.Lost: "lost",
}

// stateCell returns a cell that is marked if the state is not good.
func stateCell(s record.State, text string) report.Cell {
	c := report.Cell{Text: text}
	switch {
	case !s.Good():
		c.Class = report.Bad
	case s == record.Skip:
		c.Class = report.Odd
	}
	return c
}

// maxConsole limits the bytes of a console in a page. They are the last bytes.
const maxConsole = 64 << 10

// HTML returns a self-contained page: kernels x backends x tests, each cell with a link to its log.
// dir contains the consoles.
func (r Results) HTML(dir string) ([]byte, error) {
	passed, failed, skipped := r.Count()
	p := report.Page{
		Title: fmt.Sprintf("quark matrix: %d passed, %d failed", passed, failed),
		Notes: []string{fmt.Sprintf("%d passed, %d failed, %d skipped in %d guests; %s s, %s UTC, %s. A cell has the test's seconds and leads to its log.",
			passed, failed, skipped, len(r.Guests), seconds(r.TookMS), r.Time.UTC().Format("2006-01-02 15:04"), r.Machine)},
	}
	p.Sections = append(p.Sections, report.Section{Title: "Guests", Table: r.table()}, report.Section{Table: r.testTable()})
	for i, g := range r.Guests {
		p.Logs = append(p.Logs, report.Log{ID: guestID(i), Title: g.Guest, Notes: logNotes(g.State, g.Reason, g.Repro),
			Text: consoleText(filepath.Join(dir, filepath.FromSlash(g.Log)))})
		for k, c := range g.Cells {
			text := c.Log
			if text == "" {
				text = "(no log)"
			}
			p.Logs = append(p.Logs, report.Log{ID: cellID(i, k), Title: fmt.Sprintf("%s: %s", g.Guest, c.Job()), Notes: logNotes(c.State, c.Reason, c.Repro), Text: text})
		}
	}
	var b bytes.Buffer
	err := p.Write(&b)
	return b.Bytes(), err
}

// guestID and cellID return the ids of the logs of a guest, and of one of its cells.
func guestID(guest int) string      { return fmt.Sprintf("g%d", guest) }
func cellID(guest, cell int) string { return fmt.Sprintf("g%d-%d", guest, cell) }

func logNotes(state record.State, reason, repro string) []string {
	notes := []string{strings.TrimSpace(string(state) + " " + reason)}
	if repro != "" {
		notes = append(notes, "repro: "+repro)
	}
	return notes
}

// testTable has a row for each test of any guest, and a column for each backend of each guest.
func (r Results) testTable() *report.Table {
	t := &report.Table{Title: "Tests", Head: []string{"test"}}
	type column struct {
		guest   int
		backend string
	}
	var columns []column
	var tests []string
	for i, g := range r.Guests {
		before := len(columns)
		for _, b := range r.columns() {
			if len(g.Count(b)) > 0 {
				columns = append(columns, column{i, b})
			}
		}
		if len(columns) == before {
			columns = append(columns, column{i, NoBackend})
		}
		for _, c := range columns[before:] {
			t.Head = append(t.Head, fmt.Sprintf("%s\n%s", g.Guest, c.backend))
		}
		for _, c := range g.Cells {
			if !slices.Contains(tests, c.Test) {
				tests = append(tests, c.Test)
			}
		}
	}
	for _, test := range tests {
		row := report.Cells(test)
		for _, column := range columns {
			g := r.Guests[column.guest]
			k := slices.IndexFunc(g.Cells, func(c Cell) bool { return c.Test == test && c.Backend == column.backend })
			if k < 0 {
				row = append(row, report.Cell{})
				continue
			}
			c := g.Cells[k]
			cell := stateCell(c.State, marks[c.State]+" "+seconds(c.DurationMS))
			cell.Title, cell.Link = strings.TrimSuffix(fmt.Sprintf("%s: %s: %s: %s", g.Guest, c.Job(), c.State, c.Reason), ": "), cellID(column.guest, k)
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// consoleText returns the end of a console log.
func consoleText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return record.CutLog(strings.ToValidUTF8(string(b), "?"), maxConsole)
}
