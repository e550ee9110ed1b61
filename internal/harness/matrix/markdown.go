package matrix

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Markdown is the table for the README.
func (r Results) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| kernel | release | types | tests | %s |\n", strings.Join(columns(), " | "))
	b.WriteString("|---|---|---|---|" + strings.Repeat("---|", len(columns())) + "\n")
	for _, g := range r.Guests {
		release := "?"
		if g.Hello != nil {
			release = g.Hello.Kernel
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", g.Kernel.Name, release, g.BTF, g.Part)
		for _, c := range columns() {
			n := g.Count(c)
			text := score(n)
			if state := worst(n); state != "" {
				text += " **" + string(state) + "**"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		if !g.State.Good() && !g.explained() {
			fmt.Fprintf(&b, " **%s**", g.State)
		}
		b.WriteString("\n")
	}
	passed, failed, skipped := r.Count()
	fmt.Fprintf(&b, "\n%d passed, %d failed, %d skipped in %d guests, %s. \"30+2s\" is 30 passed and 2 skipped with a reason; \"28/30\" is 2 of 30 not\npassed, the worst state beside it.\n",
		passed, failed, skipped, len(r.Guests), r.Time.UTC().Format("2006-01-02"))
	return b.String()
}

// worst returns the worst of the states that are not good, or "".
func worst(n map[record.State]int) record.State {
	for _, s := range []record.State{record.Crash, record.Hang, record.BootFail, record.Lost, record.Fail} {
		if n[s] > 0 {
			return s
		}
	}
	return ""
}

// The marks in a file between which its table stands.
const (
	markBegin = "<!-- matrix: made by make matrix-report -->"
	markEnd   = "<!-- /matrix -->"
)

// UpdateMarkdown puts a table between the marks in a file, which is left alone if nothing changes.
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
	var b bytes.Buffer
	b.Write(before)
	fmt.Fprintf(&b, "%s\n%s%s", markBegin, table, markEnd)
	b.Write(after)
	if bytes.Equal(b.Bytes(), old) {
		return nil
	}
	return replaceFile(path, b.Bytes())
}
