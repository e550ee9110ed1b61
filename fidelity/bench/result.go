package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Result is everything that was measured on one machine in one run.
type Result struct {
	Machine
	Rows  []Row
	Notes []string // participants that did not run, and failures
}

// Machine is the first line of a result.
type Machine struct {
	Kernel       string        `json:"kernel"`
	Arch         string        `json:"arch"`
	CPUs         int           `json:"cpus"`
	Model        string        `json:"cpu_model,omitempty"`
	Version      string        `json:"version"` // of quark
	Time         time.Time     `json:"time"`
	Top          float64       `json:"top"`     // processes a second without a monitor
	Busy         float64       `json:"busy"`    // CPU share of other work before, 0 to 1
	Repeats      int           `json:"repeats"` // requested
	Participants []Participant `json:"participants"`
}

// Participant is a backend or a monitor that takes part.
type Participant struct {
	Name    string   `json:"name"`
	Own     bool     `json:"own,omitempty"` // a backend of quark
	Version string   `json:"version,omitempty"`
	Kinds   []string `json:"kinds"` // kinds of process events that it reports
	Silent  bool     `json:"silent,omitempty"`
}

// Row is the measurement of one participant under one load.
type Row struct {
	Participant string `json:"participant"`
	Repeat      int    `json:"repeat"`
	Load        Load   `json:"load"`
	Rate        int    `json:"rate,omitempty"`    // processes a second; 0 is full speed
	Workers     int    `json:"workers,omitempty"` // that start processes
	Ring        int    `json:"ring,omitempty"`    // bytes of eBPF's ring; 0 is the default

	Processes int `json:"processes"`
	// Offered is the measured number of processes per second, or of builds per second. Alone is
	// the number without a monitor, measured right before the turn.
	Offered float64 `json:"offered,omitempty"`
	Alone   float64 `json:"alone,omitempty"`

	// Events is the number of events of these processes that have a kind that the participant
	// reports.
	Events int `json:"events,omitempty"`
	Seen   int `json:"seen"`
	// Lost is the number of events of all processes that the participant reports as lost.
	Lost uint64 `json:"lost"`
	// Wrong counts wrong and stale values, and phantom, repeated and out-of-order events.
	Wrong int `json:"wrong,omitempty"`

	CPU time.Duration `json:"cpu_ns"`           // of the monitor and its children
	BPF time.Duration `json:"bpf_ns,omitempty"` // run time of its eBPF programs
	RSS int64         `json:"peak_rss_kib,omitempty"`
	// Output is the number of bytes that it has written.
	Output int64 `json:"output,omitempty"`
	// Ready is the time from the start of the monitor to its first report; with Library it is
	// the duration of quark.Open.
	Ready time.Duration `json:"ready_ns,omitempty"`
}

// Missing returns the number of events that were not seen.
func (r *Row) Missing() int { return r.Events - r.Seen }

// line is a line of JSON: the machine, a row or a note of a run.
type line struct {
	Type    string   `json:"type"`
	Run     string   `json:"run"`
	Machine *Machine `json:"machine,omitempty"`
	Row     *Row     `json:"row,omitempty"`
	Note    string   `json:"note,omitempty"`
}

const lineType = "bench"

// id identifies a run. A file can have several runs.
func (m *Machine) id() string { return m.Kernel + " " + m.Arch + " " + m.Time.Format(time.RFC3339Nano) }

// add adds a line. It skips a note that differs from an earlier note only in numbers.
func (r *Result) add(l line) {
	if l.Row != nil {
		r.Rows = append(r.Rows, *l.Row)
	}
	same := func(note string) bool { return withoutDigits(note) == withoutDigits(l.Note) }
	if l.Note != "" && !slices.ContainsFunc(r.Notes, same) {
		r.Notes = append(r.Notes, l.Note)
	}
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// maxLine is the longest accepted line in bytes.
const maxLine = 1 << 20

// Read returns the results in lines of JSON. Lines of other types are skipped.
func Read(in io.Reader) (list []*Result, err error) {
	runs := make(map[string]*Result)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		var kind struct{ Type string }
		if len(text) == 0 || json.Unmarshal(text, &kind) != nil || kind.Type != lineType {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		r := runs[l.Run]
		if l.Machine != nil && r == nil {
			r = &Result{Machine: *l.Machine}
			runs[l.Run] = r
			list = append(list, r)
		}
		if r == nil {
			return nil, fmt.Errorf("line %d: the machine of run %q is missing", n, l.Run)
		}
		r.add(l)
	}
	if err = lines.Err(); err == nil && len(list) == 0 {
		err = errors.New("the file has no benchmark: quark-fidelity bench -o writes one")
	}
	return list, err
}

// ReadFiles returns the results in files.
func ReadFiles(paths []string) (all []*Result, err error) {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		list, err := Read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, list...)
	}
	return all, nil
}
