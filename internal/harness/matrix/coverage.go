package matrix

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Block is a stretch of code without a branch, as a profile names it: FILE:LINE.COLUMN,LINE.COLUMN.
type Block struct {
	Name       string
	Statements int
}

// Coverage is which blocks each run reached, by the run's name.
type Coverage struct {
	runs    []string
	blocks  map[string]int // statements
	reached map[string]map[string]bool
}

// AddProfile reads the profile of a run, in the text format of go test and covdata textfmt.
func (c *Coverage) AddProfile(run string, r io.Reader) error {
	if c.blocks == nil {
		c.blocks, c.reached = make(map[string]int), make(map[string]map[string]bool)
	}
	if c.reached[run] == nil {
		c.runs = append(c.runs, run)
		c.reached[run] = make(map[string]bool)
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "mode: ") || line == "" {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("profile of %s: %q: block, statements and count are wanted", run, line)
		}
		statements, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.ParseUint(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("profile of %s: %q: block, statements and count are wanted", run, line)
		}
		c.blocks[f[0]] = statements
		if count > 0 {
			c.reached[run][f[0]] = true
		}
	}
	return sc.Err()
}

// WriteProfile writes all runs as one profile, for go tool cover.
func (c *Coverage) WriteProfile(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintln(bw, "mode: set")
	for _, b := range slices.Sorted(maps.Keys(c.blocks)) {
		count := 0
		for _, r := range c.runs {
			if c.reached[r][b] {
				count = 1
			}
		}
		fmt.Fprintln(bw, b, c.blocks[b], count)
	}
	return bw.Flush()
}

// Table prints for each package how much of it each run reached, and all together.
func (c *Coverage) Table(w io.Writer) error {
	type sum struct{ all, any int }
	total := make(map[string]*sum)
	byRun := make(map[string]map[string]int)
	add := func(pkg, block string, n int) {
		if total[pkg] == nil {
			total[pkg], byRun[pkg] = new(sum), make(map[string]int)
		}
		total[pkg].all += n
		hit := false
		for _, r := range c.runs {
			if c.reached[r][block] {
				byRun[pkg][r] += n
				hit = true
			}
		}
		if hit {
			total[pkg].any += n
		}
	}
	for b, n := range c.blocks {
		file, _, _ := strings.Cut(b, ":")
		add(path.Dir(file), b, n)
		add("all", b, n)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "all runs\t%s\t  package\n", strings.Join(c.runs, "\t"))
	percent := func(n, of int) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
	}
	for _, pkg := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(tw, "%s\t", percent(total[pkg].any, total[pkg].all))
		for _, r := range c.runs {
			fmt.Fprintf(tw, "%s\t", percent(byRun[pkg][r], total[pkg].all))
		}
		fmt.Fprintf(tw, "  %s\n", pkg)
	}
	return tw.Flush()
}

// OnlySome prints the lines that some of the runs with a name of which like is true reach and
// others of them do not, and which.
func (c *Coverage) OnlySome(w io.Writer, like func(run string) bool) error {
	var runs []string
	for _, r := range c.runs {
		if like(r) {
			runs = append(runs, r)
		}
	}
	type line struct {
		file       string
		first      int
		where, who string
	}
	var lines []line
	for b := range c.blocks {
		var who []string
		for _, r := range runs {
			if c.reached[r][b] {
				who = append(who, r)
			}
		}
		if len(who) == 0 || len(who) == len(runs) {
			continue
		}
		file, span, _ := strings.Cut(b, ":")
		from, to, _ := strings.Cut(span, ",")
		from, _, _ = strings.Cut(from, ".")
		to, _, _ = strings.Cut(to, ".")
		first, _ := strconv.Atoi(from)
		text := strings.Join(who, " ")
		if 2*len(who) > len(runs) {
			text = "all but"
			for _, r := range runs {
				if !slices.Contains(who, r) {
					text += " " + r
				}
			}
		}
		lines = append(lines, line{file, first, from + "-" + to, text})
	}
	sort.Slice(lines, func(i, j int) bool {
		if lines[i].file != lines[j].file {
			return lines[i].file < lines[j].file
		}
		return lines[i].first < lines[j].first
	})
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintf(tw, "%s:%s\t%s\n", l.file, l.where, l.who)
	}
	return tw.Flush()
}
