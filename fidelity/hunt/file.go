package hunt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/internal/kernelversion"
)

const (
	faultsMark  = "# faults: "
	backendMark = "# backend: "
)

// write writes the file of a finding, which Rerun performs.
func (f *Finding) write(o *Options) error {
	f.Path = filepath.Join(o.Dir, fmt.Sprintf("hunt-%d-%d.script", o.Seed, f.Number))
	kernel, _ := kernelversion.Running()
	var b strings.Builder
	fmt.Fprintf(&b, "# Found by quark-fidelity hunt --seed %d, script %d, on Linux %s.\n", o.Seed, f.Number, kernel)
	fmt.Fprintf(&b, "# Seen in %d of %d performances of this script, which is what is left of it:\n", f.Again, f.Of)
	for _, text := range f.Findings {
		fmt.Fprintf(&b, "#   %s\n", strings.ReplaceAll(text, "\n", " "))
	}
	fmt.Fprintf(&b, "%s%s\n", backendMark, f.Backend)
	if f.Faults != (Faults{}) {
		fmt.Fprintf(&b, "%s%s\n", faultsMark, f.Faults)
	}
	return os.WriteFile(f.Path, []byte(b.String()+f.Script.String()), 0o644)
}

// Rerun performs a script times times, with the faults that its file names, and returns the lies by
// performance. Without backends in o those are all that can be opened.
func Rerun(path string, times int, o Options) (*Again, error) {
	o.setDefaults()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := script.Parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var f Faults
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, faultsMark); ok {
			if f, err = ParseFaults(text); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	dir, err := os.MkdirTemp("", "quark-hunt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	scripts := make([]*script.Script, times)
	for i := range scripts {
		scripts[i] = s
	}
	h := &hunter{Options: o, dir: dir}
	r, err := h.try(o.Backends, scripts, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &Again{Absent: r.Absent, Lost: r.Lost, Lies: make(map[string]int), Findings: make(map[string][]string)}
	for _, l := range r.Lies {
		if a.Lies[l.Backend]++; a.Lies[l.Backend] == 1 {
			a.Findings[l.Backend] = l.Findings
		}
	}
	return a, nil
}

// Again is what came of performing a script again.
type Again struct {
	Absent   []string
	Lost     uint64
	Lies     map[string]int      // of each backend that lied, in how many performances
	Findings map[string][]string // of the first of them
}
