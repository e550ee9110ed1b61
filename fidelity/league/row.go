package league

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/bench"
)

// Run is all that was measured on one machine.
type Run struct {
	Machine
	Rows     []Row
	Findings []Finding
	Filter   []bench.Filtered // the proc connector's filter, of FilterOf processes
	FilterOf int
	Absent   []fidelity.Absence // why a participant was not run, or not to the end
	Notes    []fidelity.Absence // what went wrong with one that was
}

// Machine is the first line of a run: what was measured where.
type Machine struct {
	Kernel  string    `json:"kernel"`
	Arch    string    `json:"arch"`
	CPUs    int       `json:"cpus"`
	Model   string    `json:"cpu_model,omitempty"`
	Memory  uint64    `json:"memory_kib,omitempty"`
	Version string    `json:"version"` // quark's
	Time    time.Time `json:"time"`
	// Top is how many lives a second the machine makes without a monitor.
	Top float64 `json:"top"`
	// Busy is the share of the CPUs that others used right before, 0 to 1: with more than a
	// few percent no figure of time is worth much.
	Busy         float64       `json:"busy"`
	Repeats      int           `json:"repeats"` // that were wanted
	Participants []Participant `json:"participants"`
}

// Participant is a backend or a monitor that takes part.
type Participant struct {
	Name    string `json:"name"`
	Own     bool   `json:"own,omitempty"` // one of quark's backends
	Version string `json:"version,omitempty"`
	// Kinds are those events of a life that it reports; Silent says that it counts no loss,
	// Unstamped that its lines have no time of use.
	Kinds     []string `json:"kinds"`
	Silent    bool     `json:"silent,omitempty"`
	Unstamped bool     `json:"unstamped,omitempty"`
}

// The loads.
const (
	Rate     = "rate"     // lives at a rate, started by one worker a CPU
	Full     = "full"     // as many lives as some workers can start
	Lifetime = "lifetime" // lives of some length
	Stopped  = "stopped"  // as many lives as can be started while the monitor stands still
	Programs = "programs" // a rate at which the kernel counts the run time of eBPF programs
	Counted  = "counted"  // the same rate under a backend that counts events and prints none
)

// Row is what was measured with one participant under one load.
type Row struct {
	Participant string        `json:"participant"`
	Repeat      int           `json:"repeat"`
	Load        string        `json:"load"`
	Rate        int           `json:"rate"` // wanted lives a second, 0 for all that can be made
	Workers     int           `json:"workers"`
	Lifetime    time.Duration `json:"lifetime_ns"`

	Lives   int     `json:"lives"`   // that were made
	Offered float64 `json:"offered"` // the same a second
	// Alone is Offered of the same load without a monitor, right before; 0 where it was not
	// measured.
	Alone float64 `json:"alone"`

	Truth    int    `json:"truth"` // events of these lives that the participant reports
	Seen     int    `json:"seen"`
	Lost     uint64 `json:"lost"`     // events that it said it had lost, of whatever process
	Extra    int    `json:"extra"`    // that did not happen, or were reported twice
	Inverted int    `json:"inverted"` // after others that they happened before
	Wrong    int    `json:"wrong"`    // fields and stamps
	Stale    int    `json:"stale"`    // fields that were right at another time
	// Known is how many of the wanted fields of these lives, Wanted for each, it had right.
	Known  int `json:"known"`
	Wanted int `json:"wanted"`

	CPU time.Duration `json:"cpu_ns"` // of the monitor and its children, until it had said all
	// Judge is the CPU time of the judge while the load ran.
	Judge    time.Duration `json:"judge_ns"`
	Programs time.Duration `json:"programs_ns"` // run time of its eBPF programs
	RSS      int64         `json:"peak_rss_kib"`
	Ready    time.Duration `json:"ready_ns"` // from its start until it had reported a process
	DelayP50 time.Duration `json:"delay_p50_ns"`
	DelayP99 time.Duration `json:"delay_p99_ns"`
	DelayMax time.Duration `json:"delay_max_ns"`
}

// Missing is how many events were not seen.
func (r *Row) Missing() int { return r.Truth - r.Seen }

// Finding is what a participant said of a scenario in which some are known to be wrong.
type Finding struct {
	Participant string `json:"participant"`
	Scenario    string `json:"scenario"`
	Truth       int    `json:"truth"`
	Seen        int    `json:"seen"`
	// Bad are phantoms, duplicates, and what is wrong, stale or out of order.
	Bad int `json:"bad"`
	// Fault is what it is known to have wrong here, and Count how often it had that now.
	Fault    string   `json:"fault,omitempty"`
	Count    int      `json:"count,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

// The types of lines. Each line has the run that it is of: a file can have several.
type line struct {
	Type     string            `json:"type"`
	Run      string            `json:"run"`
	Machine  *Machine          `json:"machine,omitempty"`
	Row      *Row              `json:"row,omitempty"`
	Finding  *Finding          `json:"finding,omitempty"`
	Filter   []bench.Filtered  `json:"filter,omitempty"`
	FilterOf int               `json:"filter_of,omitempty"`
	Absent   *fidelity.Absence `json:"absent,omitempty"`
	Note     *fidelity.Absence `json:"note,omitempty"`
}

const lineType = "league"

// id names a run.
func (m *Machine) id() string { return m.Kernel + " " + m.Arch + " " + m.Time.Format(time.RFC3339Nano) }

// maxLine is the longest accepted line in bytes.
const maxLine = 1 << 20

// Read returns the runs of lines of JSON, among which others may be. An input without one is an
// error.
func Read(in io.Reader) (list []*Run, err error) {
	runs := make(map[string]*Run)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		var kind struct {
			Type string `json:"type"`
		}
		if len(text) == 0 || json.Unmarshal(text, &kind) != nil || kind.Type != lineType {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		r := runs[l.Run]
		if l.Machine != nil {
			if r == nil {
				r = new(Run)
				runs[l.Run] = r
				list = append(list, r)
			}
			r.Machine = *l.Machine
		}
		if r == nil {
			return nil, fmt.Errorf("line %d: no line before it says what the machine of %q is", n, l.Run)
		}
		r.add(l)
	}
	if err = lines.Err(); err == nil && len(list) == 0 {
		err = errors.New("there is no league in it: quark-fidelity league -o FILE writes one")
	}
	return list, err
}

func (r *Run) add(l line) {
	if l.Row != nil {
		r.Rows = append(r.Rows, *l.Row)
	}
	if l.Finding != nil {
		r.Findings = append(r.Findings, *l.Finding)
	}
	if l.Filter != nil {
		r.Filter, r.FilterOf = l.Filter, l.FilterOf
	}
	if l.Absent != nil {
		r.Absent = append(r.Absent, *l.Absent)
	}
	// What is the same in each repeat, but for a number, is said once.
	if l.Note != nil && !slices.ContainsFunc(r.Notes, func(n fidelity.Absence) bool {
		return n.Backend == l.Note.Backend && withoutNumbers(n.Reason) == withoutNumbers(l.Note.Reason)
	}) {
		r.Notes = append(r.Notes, *l.Note)
	}
}

func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// ReadFiles returns the runs in files. One that is in several files is there once, with the most
// that one of them has of it.
func ReadFiles(paths []string) (all []*Run, err error) {
	for _, path := range paths {
		list, err := readFile(path)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			i := slices.IndexFunc(all, func(o *Run) bool { return o.id() == r.id() })
			switch {
			case i < 0:
				all = append(all, r)
			case len(r.Rows) > len(all[i].Rows):
				all[i] = r
			}
		}
	}
	return all, nil
}

func readFile(path string) ([]*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return list, nil
}

// columns are those of the CSV form.
var columns = []struct {
	name string
	of   func(*Run, *Row) string
}{
	{"kernel", func(r *Run, _ *Row) string { return r.Kernel }},
	{"arch", func(r *Run, _ *Row) string { return r.Arch }},
	{"time", func(r *Run, _ *Row) string { return r.Time.Format(time.RFC3339) }},
	{"participant", func(_ *Run, w *Row) string { return w.Participant }},
	{"repeat", func(_ *Run, w *Row) string { return strconv.Itoa(w.Repeat) }},
	{"load", func(_ *Run, w *Row) string { return w.Load }},
	{"rate", func(_ *Run, w *Row) string { return strconv.Itoa(w.Rate) }},
	{"workers", func(_ *Run, w *Row) string { return strconv.Itoa(w.Workers) }},
	{"lifetime_ns", func(_ *Run, w *Row) string { return nanoseconds(w.Lifetime) }},
	{"lives", func(_ *Run, w *Row) string { return strconv.Itoa(w.Lives) }},
	{"offered", func(_ *Run, w *Row) string { return fmt.Sprintf("%.1f", w.Offered) }},
	{"alone", func(_ *Run, w *Row) string { return fmt.Sprintf("%.1f", w.Alone) }},
	{"truth", func(_ *Run, w *Row) string { return strconv.Itoa(w.Truth) }},
	{"seen", func(_ *Run, w *Row) string { return strconv.Itoa(w.Seen) }},
	{"lost", func(_ *Run, w *Row) string { return strconv.FormatUint(w.Lost, 10) }},
	{"extra", func(_ *Run, w *Row) string { return strconv.Itoa(w.Extra) }},
	{"inverted", func(_ *Run, w *Row) string { return strconv.Itoa(w.Inverted) }},
	{"wrong", func(_ *Run, w *Row) string { return strconv.Itoa(w.Wrong) }},
	{"stale", func(_ *Run, w *Row) string { return strconv.Itoa(w.Stale) }},
	{"known", func(_ *Run, w *Row) string { return strconv.Itoa(w.Known) }},
	{"wanted", func(_ *Run, w *Row) string { return strconv.Itoa(w.Wanted) }},
	{"cpu_ns", func(_ *Run, w *Row) string { return nanoseconds(w.CPU) }},
	{"judge_ns", func(_ *Run, w *Row) string { return nanoseconds(w.Judge) }},
	{"programs_ns", func(_ *Run, w *Row) string { return nanoseconds(w.Programs) }},
	{"peak_rss_kib", func(_ *Run, w *Row) string { return strconv.FormatInt(w.RSS, 10) }},
	{"ready_ns", func(_ *Run, w *Row) string { return nanoseconds(w.Ready) }},
	{"delay_p50_ns", func(_ *Run, w *Row) string { return nanoseconds(w.DelayP50) }},
	{"delay_p99_ns", func(_ *Run, w *Row) string { return nanoseconds(w.DelayP99) }},
	{"delay_max_ns", func(_ *Run, w *Row) string { return nanoseconds(w.DelayMax) }},
}

func nanoseconds(d time.Duration) string { return strconv.FormatInt(d.Nanoseconds(), 10) }

// CSV writes the rows of runs as comma-separated values, with the names of columns as the first
// line.
func CSV(out io.Writer, runs []*Run) error {
	w := csv.NewWriter(out)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.name
	}
	w.Write(record)
	for _, r := range runs {
		for i := range r.Rows {
			for k, c := range columns {
				record[k] = c.of(r, &r.Rows[i])
			}
			w.Write(record)
		}
	}
	w.Flush()
	return w.Error()
}
