package report

import (
	"bytes"
	"html/template"
	"strings"
	"testing"
)

func example() *Table {
	return &Table{
		Title: "Seen", Note: "In percent of <all>.", Head: []string{"", "6.1\nebpf", "forkstat"},
		Rows: [][]Cell{
			{{Text: "full speed"}, {Text: "100", Class: Heat, Shade: 100}, {Text: "7 | 8", Class: Bad, Title: `it "lost"`, Link: "log1"}},
			Cells("1000/s", "100", "99.9"),
		},
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := example().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "Seen\n            6.1 ebpf  forkstat\nfull speed  100       7 | 8\n1000/s      100       99.9\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestPage(t *testing.T) {
	p := &Page{
		Title: "A & B", Notes: []string{"<first>"}, Legend: []Cell{{Text: "half", Class: Heat, Shade: 50}},
		Sections: []Section{
			{Table: example()},
			{Title: "Drawn", ID: "drawn", Notes: []string{"a note"}, Drawings: template.HTML("<svg></svg>")},
			{Title: "Listed", Lines: []string{"one", "<two>"}, Folded: true},
		},
		Logs: []Log{{ID: "log1", Title: "the log", Notes: []string{"repro"}, Text: "a\n<b>"}},
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"<title>A &amp; B</title>", "&lt;first&gt;", `<span class="heat" style="--shade:50">half`, "<h2>Seen</h2>", "In percent of &lt;all&gt;.",
		`<td class="heat" style="--shade:100">100`, `<td class="bad" title="it &#34;lost&#34;"><a href="#log1">7 | 8</a>`, "<th>full speed",
		`<h2 id="drawn">Drawn</h2>`, "<svg></svg>", "<details><summary>Listed</summary><ul><li>one", "<li>&lt;two&gt;",
		`<section class="log" id="log1">`, "<pre>a\n&lt;b&gt;</pre>", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page[strings.Index(page, "<h1>"):])
		}
	}
	for _, never := range []string{"ZgotmplZ", "%!", "src="} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
}
