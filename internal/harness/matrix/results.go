package matrix

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/record"
)

// Results are the outcomes of a run, the content of ResultsFile.
type Results struct {
	Time    time.Time `json:"time"`
	TookMS  int64     `json:"took_ms"`
	Machine string    `json:"machine"` // description of the machine that ran the guests
	Guests  []Outcome `json:"guests"`

	// Planned names the guests of the whole run, of all shards, in their order.
	Planned []string `json:"planned,omitempty"`
	// Missing names planned guests without outcome, because the run was interrupted or a shard
	// has no results.
	Missing []string `json:"missing,omitempty"`
}

// The files of a run in its directory.
const (
	ResultsFile = "results.json"
	HTMLFile    = "index.html"
)

// LoadResults reads a run's results. The error is os.ErrNotExist if there are none.
func LoadResults(dir string) (r Results, err error) {
	path := filepath.Join(dir, ResultsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Write writes all reports of a run into dir.
func (r Results) Write(dir string) error {
	for _, f := range []struct {
		name   string
		encode func() ([]byte, error)
	}{
		{ResultsFile, func() ([]byte, error) { return json.MarshalIndent(r, "", "\t") }},
		{HTMLFile, func() ([]byte, error) { return r.HTML(dir) }},
	} {
		b, err := f.encode()
		if err == nil {
			err = atomicfile.Write(filepath.Join(dir, f.name), b)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// notRunAtAll is the reason of a missing guest.
const notRunAtAll = "this guest has not run"

// All returns the cells of all guests as result records. A guest that failed although its cells
// passed, or that is missing, has an additional record.
func (r Results) All() (list []record.Result) {
	for _, g := range r.Guests {
		for _, c := range g.Cells {
			c.Test, c.Log = g.Guest+" "+c.Test, ""
			list = append(list, c.Result)
		}
		if !g.State.Good() && !g.explained() {
			list = append(list, record.Result{Test: g.Guest, Backend: NoBackend, State: g.State, Reason: g.Reason})
		}
	}
	for _, name := range r.Missing {
		list = append(list, record.Result{Test: name, Backend: NoBackend, State: record.Lost, Reason: notRunAtAll})
	}
	return list
}

// Count returns the number of cells that passed, failed and were skipped. A guest that failed
// although its cells passed, or that is missing, counts as one failure.
func (r Results) Count() (passed, failed, skipped int) {
	for _, rec := range r.All() {
		switch rec.State {
		case record.Pass:
			passed++
		case record.Skip:
			skipped++
		default:
			failed++
		}
	}
	return passed, failed, skipped
}

// Good reports whether all guests are good and none is missing.
func (r Results) Good() bool {
	return len(r.Missing) == 0 && !slices.ContainsFunc(r.Guests, func(g Outcome) bool { return !g.State.Good() })
}

// Merge combines the results of several runs, or of the shards of one run. If a guest is in several
// runs, the last outcome counts. The guests are in the order of the whole run. A guest that no
// shard has run is missing.
func Merge(runs []Results) (all Results) {
	var machines []string
	for _, r := range runs {
		if r.Time.After(all.Time) {
			all.Time = r.Time
		}
		all.TookMS = max(all.TookMS, r.TookMS)
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
		for _, g := range r.Guests {
			i := slices.IndexFunc(all.Guests, func(o Outcome) bool { return o.Guest == g.Guest })
			if i < 0 {
				all.Guests = append(all.Guests, g)
			} else {
				all.Guests[i] = g
			}
		}
		for _, name := range append(slices.Clone(r.Planned), r.Missing...) {
			if !slices.Contains(all.Planned, name) {
				all.Planned = append(all.Planned, name)
			}
		}
	}
	all.Machine = strings.Join(machines, "; ")
	place := func(o Outcome) int {
		if i := slices.Index(all.Planned, o.Guest); i >= 0 {
			return i
		}
		return len(all.Planned) // guests of a file without a plan come last
	}
	slices.SortStableFunc(all.Guests, func(a, b Outcome) int { return cmp.Compare(place(a), place(b)) })
	all.Missing = missing(all.Planned, all.Guests)
	return all
}

// missing returns the planned guests without outcome.
func missing(planned []string, guests []Outcome) (names []string) {
	for _, name := range planned {
		if !slices.ContainsFunc(guests, func(o Outcome) bool { return o.Guest == name }) {
			names = append(names, name)
		}
	}
	return names
}

// Plan lists the guests of the whole run, and the guests that ran here.
func (r *Results) Plan(whole, here []Guest) {
	r.Planned = guestNames(whole)
	r.Missing = missing(guestNames(here), r.Guests)
}

func guestNames(guests []Guest) (list []string) {
	for _, g := range guests {
		list = append(list, g.Name())
	}
	return list
}
