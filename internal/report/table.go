// Package report writes tables as text for terminals and as self-contained HTML
// pages.
//
// A [Table] can be written in each of these forms; a [Page] has sections with tables, drawings of
// package chart, lists and logs.
package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table. The first cell of each row names the row.
type Table struct {
	Title string
	Note  string // a paragraph below the title
	Head  []string
	Rows  [][]Cell
}

// Cell is a value of a table.
type Cell struct {
	ID    string // where a link may lead
	Text  string
	Title string // tooltip on a page
	Link  string // id of a section or log of the page
	Class string // of the page's style sheet, such as Bad
	Shade int    // with Heat the percentage of good values
}

// The classes of cells that are marked.
const (
	Bad  = "bad"
	Odd  = "odd"
	Heat = "heat"
)

// Cells returns a row of cells with texts.
func Cells(texts ...string) (row []Cell) {
	for _, text := range texts {
		row = append(row, Cell{Text: text})
	}
	return row
}

// Add adds a row with a name and texts.
func (t *Table) Add(texts ...string) { t.Rows = append(t.Rows, Cells(texts...)) }

// Style returns the shade for the page's style sheet.
func (c Cell) Style() template.CSS {
	if c.Class != Heat {
		return ""
	}
	return template.CSS(fmt.Sprintf("--shade:%d", c.Shade))
}

// WriteText writes the table with aligned columns.
func (t *Table) WriteText(out io.Writer) error {
	if t.Title != "" {
		fmt.Fprintln(out, t.Title)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(t.Head) > 0 {
		fmt.Fprintln(w, strings.ReplaceAll(strings.Join(t.Head, "\t"), "\n", " "))
	}
	for _, row := range t.Rows {
		fmt.Fprintln(w, strings.Join(texts(row), "\t"))
	}
	return w.Flush()
}

func texts(row []Cell) (list []string) {
	for _, c := range row {
		list = append(list, c.Text)
	}
	return list
}
