package filters

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/filter"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/fidelity/score"
)

// Every field that a filter can compare is judged.
func TestAllFields(t *testing.T) {
	var has []string
	for _, f := range fields(new(engine.Host), 0) {
		has = append(has, strings.Replace(f.name, "env.A", "env.NAME", 1))
	}
	for k := range engine.Kind(engine.NumKinds) {
		if k != engine.KindGap {
			has = append(has, strings.ToLower(k.String()))
		}
	}
	has = append(has, "gone", "failed", "thread", "known", "carried", "tree", "poison")
	slices.Sort(has)
	if want := filter.Words(); !slices.Equal(has, want) {
		t.Errorf("%q are judged, and not %q", has, want)
	}
}

// A filter that delivers too much, too little or counts wrong is found.
func TestFindings(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	sh.Fork().Exec("/bin/true").Exit(0)
	sh.Fork().Exec("/bin/false").Exit(1)
	var recording bytes.Buffer
	w, err := trace.NewWriter(&recording)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, m.Clock(), engine.Options{Record: w})
	if err != nil {
		t.Fatal(err)
	}
	m.Scan(func(r *engine.RawEvent) error {
		e.Learn(r)
		return nil
	})
	for !e.Drained() {
		e.Get()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := &Recording{Trace: recording.Bytes()}
	base, err := r.play(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	says := func(v verdict) func(s *score.Seen) verdict {
		return func(s *score.Seen) verdict {
			if s.Events == engine.EventExec && s.Process.Filename == "/bin/false" {
				return v
			}
			return verdictOf(s.Events == engine.EventExec)
		}
	}
	for _, c := range []struct {
		source string
		says   verdict
		wrong  bool
	}{
		{"exec", pass, false}, {"exec", either, false}, {"exec", drop, true}, {"exec", unsure, true},
		{"exec and exe != /bin/false", drop, false}, {"exec and exe != /bin/false", pass, true},
	} {
		v := new(Verdict)
		if err := v.try(r, base, &try{source: c.source, says: says(c.says)}, false); err != nil || (len(v.Findings) > 0) != c.wrong {
			t.Errorf("%s, %d: %v, %q", c.source, c.says, err, v.Findings)
		}
	}
}
