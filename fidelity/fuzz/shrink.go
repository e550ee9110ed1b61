package fuzz

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/script"
)

// Finding is a defect with a shrunk script.
type Finding struct {
	Backend  string
	Number   int // number of the original script; -1 if no single one shows the defect
	Script   *script.Script
	Faults   Faults
	Findings []string
	// Of the last Of runs of Script, Again runs showed the defect.
	Again, Of int
	Path      string // of the script file
	kind      string // kind of the defect, which shrinking keeps; see kindOf
}

const (
	copies    = 10 // runs of each smaller script, as a race does not show in each
	smaller   = 20 // scripts to try in parallel
	lastly    = 200
	atOnce    = 10_000 // operations to run together: the events of all are in memory
	maxShrink = 10 * time.Minute
)

// shrinkDefect shrinks a batch of scripts with a defect, and writes the result. first is the number
// of the batch's first script.
func (f *fuzzer) shrinkDefect(batch []*script.Script, faults Faults, d defect, first int) (*Finding, error) {
	fmt.Fprintf(f.Progress, "defect of %s in script %d, faults %q: %s\n", d.Backend, first+d.Script, faults, strings.Join(d.Findings, "; "))
	s := &shrinker{fuzzer: f, Finding: &Finding{Backend: d.Backend, Number: -1, Faults: faults, Findings: d.Findings, kind: kindOf(d.Findings[0])}}
	if s.Script = joined(batch); d.Script >= 0 {
		s.Number, s.Script = first+d.Script, batch[d.Script]
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxShrink)
	defer cancel()
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.step(ctx); err != nil {
			return nil, s.saveAndFail(err)
		}
		fmt.Fprintf(f.Progress, "a script of %d operations shows it, %s\n", operations(s.Script), s.Faults)
	}
	n, err := s.runAll([]*script.Script{s.Script}, s.Faults, lastly)
	if err != nil {
		return nil, s.saveAndFail(err)
	}
	s.Again, s.Of = n[0], lastly
	return s.Finding, s.write(&f.Options)
}

// saveAndFail writes the current script after a failed run, and returns an error with the reason
// and the path.
func (s *shrinker) saveAndFail(why error) error {
	if err := s.write(&s.Options); err != nil {
		return errors.Join(why, err)
	}
	return fmt.Errorf("shrink %s: %w", s.Path, why)
}

func operations(scripts ...*script.Script) (n int) {
	for _, s := range scripts {
		n += strings.Count(s.String(), "\n")
	}
	return n
}

type shrinker struct {
	*fuzzer
	*Finding
}

var numbers = regexp.MustCompile("[0-9]+")

// kindOf returns the part of a finding that is the same in all findings of a defect: the event and
// the field, without numbers and values.
func kindOf(finding string) string {
	before, _, _ := strings.Cut(finding, `"`)
	return numbers.ReplaceAllString(before, "N")
}

// same reports whether d has a finding of the kind that is being shrunk.
func (f *Finding) same(d defect) bool {
	return slices.ContainsFunc(d.Findings, func(text string) bool { return kindOf(text) == f.kind })
}

// runAll runs each script the given number of times, and returns for each how many runs showed the
// defect. A defect of no single script counts for the first script.
func (s *shrinker) runAll(scripts []*script.Script, f Faults, times int) ([]int, error) {
	set, err := backends.Parse(s.Backend)
	if err != nil {
		return nil, err
	}
	once := operations(scripts...)
	n := make([]int, len(scripts))
	for times > 0 {
		now := min(times, max(1, atOnce/max(1, once)))
		times -= now
		r, err := s.runOnce(set, slices.Repeat(scripts, now), f)
		if err != nil {
			return nil, err
		}
		for _, d := range r.Defects {
			if s.same(d) {
				n[max(d.Script, 0)%len(scripts)]++
				s.Findings = d.Findings
			}
		}
	}
	return n, nil
}

// step finds fewer faults or a smaller script that still show the defect.
func (s *shrinker) step(ctx context.Context) (found bool, err error) {
	for _, f := range s.Faults.Smaller() {
		n, err := s.runAll([]*script.Script{s.Script}, f, 5*copies)
		if err != nil {
			return false, err
		}
		if n[0] > 0 {
			s.Faults = f
			return true, nil
		}
	}
	for some := range slices.Chunk(slices.Collect(s.Script.Smaller()), smaller) {
		if ctx.Err() != nil {
			return false, nil
		}
		n, err := s.runAll(some, s.Faults, copies)
		if err != nil {
			return false, err
		}
		if i := slices.IndexFunc(n, func(n int) bool { return n > 0 }); i >= 0 {
			s.Script = some[i]
			return true, nil
		}
	}
	return false, nil
}

// joined returns the scripts of a batch as one script, up to the limits of a script. It is for a
// defect that belongs to no single script.
func joined(batch []*script.Script) *script.Script {
	all := new(script.Script)
	for _, one := range batch {
		if more, err := script.Parse(all.String() + one.String()); err == nil {
			all = more
		}
	}
	return all
}
