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

// Finding is a defect that was found, with a shrunk script.
type Finding struct {
	Backend  string
	Number   int // of the script it was found with; -1 if it is of no single one
	Script   *script.Script
	Faults   Faults
	Findings []string
	// Again is in how many of the last performances of Script it was seen.
	Again, Of int
	Path      string // of the file with the script
	kind      string // of the defect, which stays the same; see kindOf
}

const (
	copies    = 10 // performances of each smaller script: a race does not show in each
	smaller   = 20 // scripts that are tried at the same time
	lastly    = 200
	atOnce    = 10_000 // operations that are performed together: all are kept in memory
	maxShrink = 10 * time.Minute
)

// find shrinks what a batch of scripts has shown, of which the first has the number first, and
// writes the script that is left.
func (f *fuzzer) find(batch []*script.Script, faults Faults, d defect, first int) (*Finding, error) {
	fmt.Fprintf(f.Progress, "a defect of %s in script %d, faults %q: %s\n", d.Backend, first+d.Script, faults, strings.Join(d.Findings, "; "))
	s := &shrinker{fuzzer: f, Finding: &Finding{Backend: d.Backend, Number: -1, Faults: faults, Findings: d.Findings, kind: kindOf(d.Findings[0])}}
	if d.Script >= 0 {
		s.Number, s.Script = first+d.Script, batch[d.Script]
	} else if err := s.choose(batch); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxShrink)
	defer cancel()
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.step(ctx); err != nil {
			return nil, s.leave(err)
		}
		fmt.Fprintf(f.Progress, "a script of %d operations shows it, %s\n", operations(s.Script), s.Faults)
	}
	n, err := s.performAll([]*script.Script{s.Script}, s.Faults, lastly)
	if err != nil {
		return nil, s.leave(err)
	}
	s.Again, s.Of = n[0], lastly
	return s.Finding, s.write(&f.Options)
}

// leave writes what is left of the script when a performance has failed, and returns why it has,
// with the path.
func (s *shrinker) leave(why error) error {
	if err := s.write(&s.Options); err != nil {
		return errors.Join(why, err)
	}
	return fmt.Errorf("make the script %s smaller: %w", s.Path, why)
}

// operations returns how many lines scripts have.
func operations(scripts ...*script.Script) (n int) {
	for _, s := range scripts {
		n += strings.Count(s.String(), "\n")
	}
	return n
}

// shrinker makes a finding smaller.
type shrinker struct {
	*fuzzer
	*Finding
}

var numbers = regexp.MustCompile("[0-9]+")

// kindOf returns what a finding has in common with others of the same defect: the event, the field
// or what else it is about, without the numbers and the values.
func kindOf(finding string) string {
	before, _, _ := strings.Cut(finding, `"`)
	return numbers.ReplaceAllString(before, "N")
}

// same reports whether a defect is of the kind that is shrunk.
func (f *Finding) same(d defect) bool {
	return slices.ContainsFunc(d.Findings, func(text string) bool { return kindOf(text) == f.kind })
}

// performAll performs each script times times, and returns how often each of them showed the
// defect. A defect of no single script counts for the first.
func (s *shrinker) performAll(scripts []*script.Script, f Faults, times int) ([]int, error) {
	set, err := backends.Parse(s.Backend)
	if err != nil {
		return nil, err
	}
	once := operations(scripts...)
	n := make([]int, len(scripts))
	for times > 0 {
		now := min(times, max(1, atOnce/max(1, once)))
		times -= now
		r, err := s.try(set, slices.Repeat(scripts, now), f)
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
	for f := range s.Faults.Smaller() {
		n, err := s.performAll([]*script.Script{s.Script}, f, 5*copies)
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
		n, err := s.performAll(some, s.Faults, copies)
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

// choose finds the script of a batch that has shown a defect of no single one, by halves.
// When neither half shows it again, as much as a script can have becomes one.
func (s *shrinker) choose(batch []*script.Script) error {
	for shown := true; shown && len(batch) > 1; {
		shown = false
		for half := range slices.Chunk(batch, (len(batch)+1)/2) {
			n, err := s.performAll(half, s.Faults, 2)
			if err != nil {
				return err
			}
			if shown = slices.Max(n) > 0; shown {
				batch = half
				break
			}
		}
	}
	s.Script = new(script.Script)
	for _, one := range batch {
		if all, err := script.Parse(s.Script.String() + one.String()); err == nil {
			s.Script = all
		}
	}
	return nil
}
