package fidelity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Report is the result of a run. Its JSON form is the file format of quark-fidelity.
type Report struct {
	Type     string     `json:"type"` // "fidelity"
	Kernel   string     `json:"kernel"`
	Arch     string     `json:"arch"`
	CPUs     int        `json:"cpus"`
	Version  string     `json:"version"` // quark's version, or the commit it was built from
	Time     time.Time  `json:"time"`
	Backends []*Backend `json:"backends"`
	Monitors []*Monitor `json:"monitors,omitempty"`
	Absent   []Absence  `json:"absent,omitempty"`
}

const recordType = "fidelity"

// Absence is a backend that could not be opened, or a monitor that did not run to its end.
type Absence struct {
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

// Backend has the results of one backend.
type Backend struct {
	Name      string                `json:"name"`
	Fields    map[string]Capability `json:"fields"`
	Scenarios []*Score              `json:"scenarios"`
	// Total and Delay cover all scenarios except the storm.
	Total score.Score `json:"total"`
	Delay Spread      `json:"delay_ns"`
	Lost  uint64      `json:"lost"`
	Cause string      `json:"cause,omitempty"`
}

// Monitor has the results of another monitor. Its wrong values are not defects of quark.
type Monitor struct {
	Backend
	// Notes are failures of the monitor.
	Notes []string `json:"notes,omitempty"`
}

// Capability is a row of the capability table.
type Capability struct {
	Origin string `json:"origin"`
	At     string `json:"at,omitempty"`
	Via    string `json:"via"`
}

// Spread has the quantiles of a distribution of times in nanoseconds.
type Spread struct {
	N   int    `json:"n"`
	P50 uint64 `json:"p50"`
	P99 uint64 `json:"p99"`
	Max uint64 `json:"max"`
}

func (s Spread) String() string {
	return fmt.Sprintf("%.1f ms / %.1f ms / %.1f ms", float64(s.P50)/1e6, float64(s.P99)/1e6, float64(s.Max)/1e6)
}

func newReport() *Report {
	r := &Report{Type: recordType, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Time: time.Now().UTC().Round(time.Second)}
	r.Kernel, _ = kernelversion.Running()
	r.Version = Version()
	return r
}

// Version returns the version of this program, or the commit it was built from, "" if neither is
// known.
func Version() (version string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version = s.Value
		}
	}
	return version
}

func (b *Backend) describe(t *engine.CapabilityTable) {
	b.Fields = make(map[string]Capability)
	for f, c := range t.Fields {
		b.Fields[engine.Field(f).String()] = Capability{c.Origin.String(), c.At.String(), c.Via}
	}
}

func spread(values []uint64) (s Spread) {
	if len(values) == 0 {
		return s
	}
	v := slices.Sorted(slices.Values(values))
	s.N, s.P50, s.P99, s.Max = len(v), v[len(v)/2], v[len(v)*99/100], v[len(v)-1]
	return s
}

// Append appends the report to a file as one JSON line. The file may be a serial line with other
// records.
func (r *Report) Append(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err = f.Write(append(b, '\n')); err != nil {
		err = fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(err, f.Close())
}

// maxLine is the longest accepted record in bytes.
const maxLine = 64 << 20

// Read returns the reports in a file of records, one per line. It skips records of other types. Of
// several reports of one run it keeps the last, which is the most complete. A file without a report
// is an error.
func Read(path string) (list []*Report, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if list, err = decode(f); err == nil && len(list) == 0 {
		err = errors.New("the file has no report: quark-fidelity run -o writes one")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return list, nil
}

func decode(in io.Reader) (list []*Report, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		var kind struct {
			Type string `json:"type"`
		}
		if len(line) == 0 || json.Unmarshal(line, &kind) != nil || kind.Type != recordType {
			continue
		}
		r := new(Report)
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if n := len(list); n > 0 && list[n-1].sameRun(r) {
			list[n-1] = r
			continue
		}
		list = append(list, r)
	}
	return list, lines.Err()
}

func (r *Report) sameRun(o *Report) bool {
	return r.Kernel == o.Kernel && r.Arch == o.Arch && r.Time.Equal(o.Time)
}

// Defects lists every difference from ground truth that the capability tables do not explain.
func (r *Report) Defects() (list []string) {
	add := func(findings []string, format string, args ...any) {
		list = append(list, fmt.Sprintf(format, args...))
		for _, f := range findings {
			list = append(list, "  "+f)
		}
	}
	for _, b := range r.Backends {
		for _, s := range b.Scenarios {
			if s.Perfect() || b.lostIn(s) {
				continue
			}
			add(s.Findings, "%s, %s: %s", b.Name, s.Scenario, &s.Score)
		}
	}
	return list
}

func (r *Report) columns() (list []*Backend) {
	list = append(list, r.Backends...)
	for _, m := range r.Monitors {
		list = append(list, &m.Backend)
	}
	return list
}

func (b *Backend) missing() int { return b.Total.Truth - b.Total.Seen }

// lostIn reports whether s is a storm whose only defect is missing events that the backend reported
// as lost.
func (b *Backend) lostIn(s *Score) bool {
	return s.Scenario == scenario.StormName && s.PerfectBut(b.Lost)
}
