package matrix

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/internal/report"
)

// Coverage is what several runs reached of the code.
type Coverage struct {
	runs   []string
	blocks map[string]*block // by name: FILE:LINE.COLUMN,LINE.COLUMN
}

// block is a stretch of code without a branch.
type block struct {
	statements int
	reached    map[string]bool // by run
}

// AddProfile reads the profile of a run, in the text format of go test and covdata textfmt.
func (c *Coverage) AddProfile(run string, r io.Reader) error {
	if c.blocks == nil {
		c.blocks = make(map[string]*block)
	}
	if !slices.Contains(c.runs, run) {
		c.runs = append(c.runs, run)
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "mode: ") || line == "" {
			continue
		}
		var name string
		var statements int
		var count uint64
		if n, err := fmt.Sscanf(line, "%s %d %d", &name, &statements, &count); n != 3 {
			return fmt.Errorf("profile of %s: %q: block, statements and count are wanted: %w", run, line, err)
		}
		b := c.blocks[name]
		if b == nil {
			b = &block{statements: statements, reached: make(map[string]bool)}
			c.blocks[name] = b
		}
		b.reached[run] = b.reached[run] || count > 0
	}
	return sc.Err()
}

// by returns the runs that reached the block, and those that did not.
func (b *block) by(runs []string) (reached, missed []string) {
	for _, r := range runs {
		if b.reached[r] {
			reached = append(reached, r)
		} else {
			missed = append(missed, r)
		}
	}
	return reached, missed
}

// WriteProfile writes all runs as one profile, for go tool cover.
func (c *Coverage) WriteProfile(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintln(bw, "mode: set")
	for _, name := range slices.Sorted(maps.Keys(c.blocks)) {
		b, count := c.blocks[name], 0
		if reached, _ := b.by(c.runs); len(reached) > 0 {
			count = 1
		}
		fmt.Fprintln(bw, name, b.statements, count)
	}
	return bw.Flush()
}

// Table prints how much of each package all runs and each run reached.
func (c *Coverage) Table(w io.Writer) error {
	const total, all = "total statements", "all runs"
	sums := make(map[string]map[string]int) // statements, by package and run
	for name, b := range c.blocks {
		file, _, _ := strings.Cut(name, ":")
		reached, _ := b.by(c.runs)
		if len(reached) > 0 {
			reached = append(reached, all)
		}
		for _, pkg := range []string{path.Dir(file), "all"} {
			if sums[pkg] == nil {
				sums[pkg] = make(map[string]int)
			}
			for _, r := range append(reached, total) {
				sums[pkg][r] += b.statements
			}
		}
	}
	columns := append([]string{all}, c.runs...)
	t := &report.Table{Head: append([]string{"package"}, columns...)}
	for _, pkg := range slices.Sorted(maps.Keys(sums)) {
		row := []string{pkg}
		for _, r := range columns {
			row = append(row, fmt.Sprintf("%.1f %%", 100*float64(sums[pkg][r])/float64(max(1, sums[pkg][total]))))
		}
		t.Add(row...)
	}
	return t.WriteText(w)
}

// OnlySome prints the lines that some of the runs reached and others did not, and which runs.
// wanted selects runs by name.
func (c *Coverage) OnlySome(w io.Writer, wanted func(run string) bool) error {
	runs := slices.DeleteFunc(slices.Clone(c.runs), func(r string) bool { return !wanted(r) })
	type line struct {
		file       string
		first      int
		last, text string
	}
	var lines []line
	for name, b := range c.blocks {
		reached, missed := b.by(runs)
		if len(reached) == 0 || len(missed) == 0 {
			continue
		}
		text := strings.Join(reached, " ")
		if len(reached) > len(missed) {
			text = "all but " + strings.Join(missed, " ")
		}
		file, span, _ := strings.Cut(name, ":")
		from, to, _ := strings.Cut(span, ",")
		from, _, _ = strings.Cut(from, ".")
		to, _, _ = strings.Cut(to, ".")
		first, _ := strconv.Atoi(from)
		lines = append(lines, line{file, first, to, text})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.first, b.first)) })
	t := new(report.Table)
	for _, l := range lines {
		t.Add(fmt.Sprintf("%s:%d-%s", l.file, l.first, l.last), l.text)
	}
	return t.WriteText(w)
}
