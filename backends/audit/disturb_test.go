package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/retry"
)

// A failed change of the audit configuration by another program has no effect, for example while
// the rules are locked.
func TestConfigChange(t *testing.T) {
	for _, c := range []struct {
		body string
		want changes
	}{
		{`op=set audit_enabled=0 old=1 auid=0 ses=1 subj=kernel res=1`, changes{disabled: true}},
		{`op=set audit_enabled=0 old=2 auid=0 ses=1 subj=kernel res=0`, changes{}},
		{`audit_enabled=0 old=1 auid=0 ses=1 res=1`, changes{disabled: true}},
		{`op=set audit_enabled=2 old=1 auid=0 ses=1 res=1`, changes{}},
		{`op=set audit_backlog_limit=0 old=64 auid=0 ses=1 res=1`, changes{}},
		{`auid=0 ses=1 subj=kernel op=remove_rule key="quark_1_2_3" list=4 res=1`, changes{removed: true}},
		{`auid=0 ses=1 subj=kernel op="remove_rule" key="quark_1_2_3" list=4 res=1`, changes{removed: true}},
		{`auid=0 ses=1 subj=kernel op=remove_rule key="quark_1_2_3" list=4 res=0`, changes{}},
		{`auid=0 ses=1 subj=kernel op=remove_rule key=(null) list=4 res=1`, changes{rules: true}},
		{`auid=0 ses=1 subj=kernel op=add_rule key="quark_1_2_4" list=4 res=1`, changes{}},
		{`auid=0 ses=1 subj=kernel op=add_rule key=(null) list=1 res=1`, changes{rules: true}},
		{`auid=0 ses=1 subj=kernel op=add_rule key=(null) list=1 res=0`, changes{}},
		{`pid=1 uid=0 auid=0 ses=1 subj=kernel op=add_rule audit_enabled=2 res=0`, changes{}},
	} {
		s, _ := newOfflineSource(t)
		s.rules.key = "quark_1_2_3"
		d := feed{s: s}
		d.record(auditrecord.ConfigChange, 1, s.now(), c.body)
		if got := s.changed; got != c.want {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
}

// populateUntil calls Populate until it returns an error or enough() returns true.
func populateUntil(t *testing.T, s *Source, evs *conform.Events, enough func() bool) error {
	t.Helper()
	for range retry.For(20 * time.Second) {
		if enough() {
			return nil
		}
		if err := s.Populate(evs); err != nil {
			return err
		}
	}
	t.Error("Populate delivered too few events before the deadline")
	return nil
}

// Rules of other programs can hide events. Then the count of lost events is a lower bound, and the
// capability table has a note. A rule that hides all events is an error of Open.
func TestRulesOfOthers(t *testing.T) {
	c := openControl(t)
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	s.loss.bound = false
	addForeignRule(t, c)
	if err := populateUntil(t, s, new(conform.Events), func() bool { st, _ := s.Stats(); return st.Bound }); err != nil {
		t.Fatal(err)
	}
	abi, exec := nativeCall(auditrecord.Exec)
	add := func(list uint32, fields ...auditrule.Field) {
		r := auditrule.Rule{List: list, Action: auditrule.Never, Fields: fields}
		r.Select(exec)
		if err := c.Add(r.Bytes()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Delete(r.Bytes()) })
	}
	add(auditrule.ListExit, auditrule.Field{Field: auditrule.FieldArch, Value: uint32(abi)}, auditrule.Field{Field: auditrule.FieldKey, Text: "of others"})
	s = open(t, Options{}, source.Options{})
	if st, _ := s.Stats(); !st.Bound || !slices.ContainsFunc(s.caps.Notes, func(note string) bool { return strings.Contains(note, "auditctl -l") }) {
		t.Errorf("a rule hides execs: got stats %+v, notes %q", st, s.caps.Notes)
	}
	add(auditrule.ListTask)
	if s, err := Open(source.Options{}, Options{Enable: true}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "task,never") {
		t.Errorf("new processes are not audited: got %v, error %v", s, err)
	}
}
