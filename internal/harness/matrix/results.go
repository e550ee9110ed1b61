package matrix

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Results of a run, which results.json holds.
type Results struct {
	Time    time.Time `json:"time"`
	TookMS  int64     `json:"took_ms"`
	Machine string    `json:"machine"` // what ran the guests, in words
	Guests  []Outcome `json:"guests"`
}

// The files of a run in its directory.
const (
	ResultsFile  = "results.json"
	previousFile = "previous.json" // the results before
	CellsFile    = "cells.jsonl"   // a result record for each cell
	JUnitFile    = "junit.xml"
	HTMLFile     = "index.html"
)

// LoadResults reads a run's results; os.ErrNotExist says that there are none.
func LoadResults(dir string) (Results, error) { return loadResults(filepath.Join(dir, ResultsFile)) }

func loadResults(path string) (r Results, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Keep moves the results of the run before out of the way of the next, which is told from it by
// Write.
func Keep(dir string) error {
	err := os.Rename(filepath.Join(dir, ResultsFile), filepath.Join(dir, previousFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Write writes all reports of a run into dir.
func (r Results) Write(dir string) error {
	previous, err := loadResults(filepath.Join(dir, previousFile))
	if err != nil {
		previous = Results{} // there was none, or it is of an older form
	}
	for _, f := range []struct {
		name   string
		encode func() ([]byte, error)
	}{
		{ResultsFile, func() ([]byte, error) { return json.MarshalIndent(r, "", "\t") }},
		{CellsFile, r.records},
		{JUnitFile, r.JUnit},
		{HTMLFile, func() ([]byte, error) { return r.HTML(dir, Diff(previous, r)) }},
	} {
		b, err := f.encode()
		if err == nil {
			err = replaceFile(filepath.Join(dir, f.name), b)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// records are the cells as result records, for make test's sum. A guest that is worse than its
// cells counts by itself.
func (r Results) records() ([]byte, error) {
	var out []byte
	add := func(rec record.Result) error {
		line, err := record.Encode(rec)
		out = append(out, line...)
		return err
	}
	for _, g := range r.Guests {
		for _, c := range g.Cells {
			err := add(record.Result{Test: g.Guest + " " + c.Test, Backend: c.Backend, State: c.State, Reason: c.Reason, DurationMS: c.DurationMS})
			if err != nil {
				return nil, err
			}
		}
		if !g.State.Good() && !g.explained() {
			if err := add(record.Result{Test: g.Guest, Backend: NoBackend, State: g.State, Reason: g.Reason}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// explained tells whether a cell shows what is wrong with the guest.
func (o Outcome) explained() bool {
	for _, c := range o.Cells {
		if !c.State.Good() {
			return true
		}
	}
	return false
}

// Count sums the cells up; a guest that is bad though its cells are good is a failure of its own.
func (r Results) Count() (passed, failed, skipped int) {
	for _, g := range r.Guests {
		for _, c := range g.Cells {
			switch c.State {
			case record.Pass:
				passed++
			case record.Skip:
				skipped++
			default:
				failed++
			}
		}
		if !g.State.Good() && !g.explained() {
			failed++
		}
	}
	return passed, failed, skipped
}

// Good tells whether all is.
func (r Results) Good() bool {
	for _, g := range r.Guests {
		if !g.State.Good() {
			return false
		}
	}
	return true
}

// Change is a cell, or a guest when Test is "", whose state differs from the run before.
type Change struct {
	Guest, Test, Backend string
	Before, Now          record.State
}

// Diff returns the cells and guests that ran in both runs and changed state, sorted by guest,
// backend and test. A run of some tests or kernels thus shows no change for the others.
func Diff(before, now Results) []Change {
	type key struct{ guest, test, backend string }
	was := make(map[key]record.State)
	each := func(r Results, f func(key, record.State)) {
		for _, g := range r.Guests {
			f(key{guest: g.Guest}, g.State)
			for _, c := range g.Cells {
				f(key{g.Guest, c.Test, c.Backend}, c.State)
			}
		}
	}
	each(before, func(k key, s record.State) { was[k] = s })
	var changes []Change
	each(now, func(k key, s record.State) {
		if old, ok := was[k]; ok && old != s {
			changes = append(changes, Change{k.guest, k.test, k.backend, old, s})
		}
	})
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Guest, b.Guest), cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Test, b.Test))
	})
	return changes
}

// Merge puts the results of several runs together, such as those of the shards of one. Of a guest
// in more than one of them the last counts.
func Merge(runs []Results) Results {
	var all Results
	at := make(map[string]int)
	machines := make(map[string]bool)
	for _, r := range runs {
		if r.Time.After(all.Time) {
			all.Time = r.Time
		}
		all.TookMS = max(all.TookMS, r.TookMS)
		if !machines[r.Machine] {
			machines[r.Machine] = true
			if all.Machine != "" {
				all.Machine += "; "
			}
			all.Machine += r.Machine
		}
		for _, g := range r.Guests {
			if i, ok := at[g.Guest]; ok {
				all.Guests[i] = g
				continue
			}
			at[g.Guest] = len(all.Guests)
			all.Guests = append(all.Guests, g)
		}
	}
	return all
}
