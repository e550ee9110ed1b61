package report

import (
	_ "embed"
	"html/template"
	"io"
)

// Page is a page of HTML.
type Page struct {
	Title    string
	Notes    []string // paragraphs
	Legend   []Cell
	Jump     []string // the IDs of cells to which a list of links leads
	Sections []Section
	Logs     []Log
}

// Section is a part of a page. The page shows the members in this order, without empty ones. An
// empty Title means the title of the table.
type Section struct {
	Title    string
	ID       string
	Notes    []string
	Drawings template.HTML
	Table    *Table
	Lines    []string
	Folded   bool // the lines are shown when the reader opens them
}

// Log is a text that the page shows when the reader follows a link to its ID.
type Log struct {
	ID, Title string
	Notes     []string
	Text      string
}

//go:embed style.css
var style template.CSS

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Write writes the page.
func (p *Page) Write(out io.Writer) error {
	return pageTemplate.Execute(out, struct {
		*Page
		Style template.CSS
	}{p, style})
}
