package matrix

import (
	"bytes"
	"fmt"
	"os"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/report"
)

// Markdown returns the table for the README.
func (r Results) Markdown() string {
	t := &report.Table{Head: append([]string{"kernel", "release", "types", "tests"}, r.columns()...)}
	for _, g := range r.Guests {
		row := []string{g.Kernel.Name, g.release(), string(g.BTF), string(g.Part)}
		for _, c := range r.columns() {
			n := g.Count(c)
			row = append(row, score(n)+worst(n))
		}
		if !g.State.Good() && !g.explained() {
			row[3] += " **" + string(g.State) + "**"
		}
		t.Add(row...)
	}
	passed, failed, skipped := r.Count()
	return t.Markdown() + fmt.Sprintf("\n%d passed, %d failed, %d skipped in %d guests, %s. "+
		"\"30+2s\" is 30 passed and 2 skipped with a reason; \"28/30\" is 2 of 30 not\npassed, the worst state beside it.\n",
		passed, failed, skipped, len(r.Guests), r.Time.UTC().Format("2006-01-02"))
}

// worst returns the worst state that is not good, in bold, or "".
func worst(n map[record.State]int) string {
	for _, s := range []record.State{record.Crash, record.Hang, record.BootFail, record.Lost, record.Fail} {
		if n[s] > 0 {
			return " **" + string(s) + "**"
		}
	}
	return ""
}

// The marks in a file between which its table stands.
const (
	markBegin = "<!-- matrix: made by docs/tables.sh kernels -->"
	markEnd   = "<!-- /matrix -->"
)

// UpdateMarkdown replaces the table between the marks in a file.
func UpdateMarkdown(path, table string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(markBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(markEnd))
	if !ok || !ok2 {
		return fmt.Errorf("update %s: it has no lines %q and %q for the table to stand between", path, markBegin, markEnd)
	}
	return atomicfile.Write(path, fmt.Appendf(nil, "%s%s\n%s%s%s", before, markBegin, table, markEnd, after))
}
