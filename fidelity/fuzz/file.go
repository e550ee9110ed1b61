package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/internal/kernelversion"
)

const (
	faultsMark  = "# faults: "
	backendMark = "# backend: "
)

// write writes the file of a finding, for Rerun.
func (f *Finding) write(o *Options) error {
	f.Path = filepath.Join(o.Dir, fmt.Sprintf("fuzz-%d-%d.script", o.Seed, f.Number))
	kernel, _ := kernelversion.Running()
	var b strings.Builder
	fmt.Fprintf(&b, "# Found by quark-fidelity fuzz --seed %d, script %d, on Linux %s.\n", o.Seed, f.Number, kernel)
	fmt.Fprintf(&b, "# Seen in %d of %d runs of this script, which was shrunk:\n", f.Again, f.Of)
	for _, text := range f.Findings {
		fmt.Fprintf(&b, "#   %s\n", strings.ReplaceAll(text, "\n", " "))
	}
	fmt.Fprintf(&b, "%s%s\n", backendMark, f.Backend)
	if f.Faults != (Faults{}) {
		fmt.Fprintf(&b, "%s%s\n", faultsMark, f.Faults)
	}
	return os.WriteFile(f.Path, []byte(b.String()+f.Script.String()), 0o644)
}

type saved struct {
	script *script.Script
	faults Faults
}

func load(path string) (s saved, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if s.script, err = script.Parse(string(b)); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, faultsMark); ok {
			if s.faults, err = ParseFaults(text); err != nil {
				return s, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return s, nil
}

// Rerun runs the scripts in files the given number of times, with the faults that the files name,
// and returns the defects of each file. Scripts with equal faults run together. By default it uses
// all backends that can be opened.
func Rerun(paths []string, times int, o Options) ([]*Again, error) {
	o.setDefaults()
	all := make([]saved, len(paths))
	var groups []Faults
	for i, path := range paths {
		var err error
		if all[i], err = load(path); err != nil {
			return nil, err
		}
		if !slices.Contains(groups, all[i].faults) {
			groups = append(groups, all[i].faults)
		}
	}
	dir, err := os.MkdirTemp("", "quark-fuzz-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	f := &fuzzer{Options: o, dir: dir}
	list := make([]*Again, len(paths))
	for _, faults := range groups {
		var scripts []*script.Script
		var of []*Again
		for i, s := range all {
			if s.faults == faults {
				list[i] = &Again{Defects: make(map[string]int), Findings: make(map[string][]string)}
				scripts, of = append(scripts, s.script), append(of, list[i])
			}
		}
		r, err := f.runOnce(o.Backends, slices.Repeat(scripts, times), faults)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", paths, err)
		}
		for i, a := range of {
			a.add(r, func(script int) bool { return script < 0 || script%len(of) == i })
		}
	}
	return list, nil
}

// add adds the defects in r of those scripts for which own returns true.
func (a *Again) add(r *result, own func(script int) bool) {
	a.Absent, a.Lost = r.Absent, r.Lost
	for _, d := range r.Defects {
		if !own(d.Script) {
			continue
		}
		if a.Defects[d.Backend]++; a.Defects[d.Backend] == 1 {
			a.Findings[d.Backend] = d.Findings
		}
	}
}

// Again is the result of running a script again.
type Again struct {
	Absent   []string            // backends that cannot be opened, with reasons
	Lost     uint64              // lost events of all scripts that ran together
	Defects  map[string]int      // number of runs with a defect, by backend
	Findings map[string][]string // findings of the first such run, by backend
}
