package audit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
)

// What others try in vain, as where the rules are locked, changes nothing.
func TestConfigChange(t *testing.T) {
	for _, c := range []struct {
		body                       string
		disabled, restore, foreign bool
	}{
		{`op=set audit_enabled=0 old=1 auid=0 ses=1 subj=kernel res=1`, true, false, false},
		{`op=set audit_enabled=0 old=2 auid=0 ses=1 subj=kernel res=0`, false, false, false},
		{`audit_enabled=0 old=1 auid=0 ses=1 res=1`, true, false, false},
		{`op=set audit_enabled=2 old=1 auid=0 ses=1 res=1`, false, false, false},
		{`op=set audit_backlog_limit=0 old=64 auid=0 ses=1 res=1`, false, false, false},
		{`auid=0 ses=1 subj=kernel op=remove_rule key="mine" list=4 res=1`, false, true, false},
		{`auid=0 ses=1 subj=kernel op="remove_rule" key="mine" list=4 res=1`, false, true, false},
		{`auid=0 ses=1 subj=kernel op=remove_rule key="mine" list=4 res=0`, false, false, false},
		{`auid=0 ses=1 subj=kernel op=remove_rule key=(null) list=4 res=1`, false, false, true},
		{`auid=0 ses=1 subj=kernel op=add_rule key="mine" list=4 res=1`, false, false, true},
		{`auid=0 ses=1 subj=kernel op=add_rule key=(null) list=1 res=1`, false, false, true},
		{`auid=0 ses=1 subj=kernel op=add_rule key=(null) list=1 res=0`, false, false, false},
		{`pid=1 uid=0 auid=0 ses=1 subj=kernel op=add_rule audit_enabled=2 res=0`, false, false, false},
	} {
		s := offline(t)
		s.rules.key = "mine"
		d := tell{s: s}
		d.record(auditrecord.ConfigChange, 1, s.now(), c.body)
		if s.disabled != c.disabled || s.restore != c.restore || s.foreign != c.foreign {
			t.Errorf("%s: disabled %t, to restore %t, foreign %t", c.body, s.disabled, s.restore, s.foreign)
		}
	}
}

// populateUntil calls Populate until it returns an error or what it brought is enough.
func populateUntil(s *Source, evs *conform.Events, enough func() bool) error {
	for end := time.Now().Add(5 * time.Second); !enough() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := s.Populate(evs); err != nil {
			return err
		}
	}
	return nil
}

// Rules that others put before those of the source may hide events: a gap tells of that, and the
// count of what is lost is a lower bound from then on. Rules that hide nothing are none of its
// business, and without new processes there is nothing to report.
func TestRulesOfOthers(t *testing.T) {
	c := control(t)
	s := open(t, Options{}, source.Options{})
	conform.Drain(t, s)
	abi, exec := native(auditrecord.Exec)
	const first = 0x10 // AUDIT_FILTER_PREPEND
	remove := func(r auditrule.Rule) {
		r.List &^= first
		c.Delete(r.Bytes())
	}
	add := func(r auditrule.Rule) auditrule.Rule {
		if err := c.Add(r.Bytes()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(r) })
		return r
	}
	never := func(list, call uint32) auditrule.Rule {
		r := auditrule.Rule{List: list, Action: auditrule.Never, Fields: []auditrule.Field{
			{Field: auditrule.FieldArch, Value: uint32(abi)}, {Field: auditrule.FieldKey, Text: fmt.Sprint("rule ", list)},
		}}
		r.Select(call)
		return r
	}
	gaps := func(evs conform.Events) (list []*engine.Gap) {
		for _, ev := range evs {
			if ev.Kind == engine.KindGap {
				list = append(list, ev.Gap)
			}
		}
		return list
	}
	foreign(t, c)                        // another rule for execs
	add(never(auditrule.ListExit, exec)) // too late
	add(never(auditrule.ListExit|first, unix.SYS_READ))
	var evs conform.Events
	populateUntil(s, &evs, func() bool { return false })
	if st, _ := s.Stats(); len(gaps(evs)) != 0 {
		t.Errorf("rules that hide nothing made %d gaps: %+v", len(gaps(evs)), st)
	}
	hiding := add(never(auditrule.ListExit|first, exec))
	if err := populateUntil(s, &evs, func() bool { return len(gaps(evs)) > 0 }); err != nil {
		t.Fatal(err)
	}
	st, err := s.Stats()
	if len(gaps(evs)) != 1 || !st.Bound || err != nil {
		t.Errorf("a rule hides execs: %d gaps, %+v, %v", len(gaps(evs)), st, err)
	}
	remove(hiding)
	if err := populateUntil(s, &evs, func() bool { return len(gaps(evs)) > 1 }); err != nil {
		t.Fatal(err)
	}
	if g := gaps(evs); len(g) != 2 || g[1].From > g[0].To || g[1].To <= g[0].To {
		t.Errorf("the rule hid execs until it was removed: %d gaps", len(g))
	}
	disguised := never(auditrule.ListExit|first, exec)
	disguised.Fields[1].Text = s.rules.key
	add(disguised)
	if err := populateUntil(s, &evs, func() bool { return len(gaps(evs)) > 2 }); err != nil || len(gaps(evs)) != 3 {
		t.Errorf("a rule with the source's key hides execs: %d gaps, %v", len(gaps(evs)), err)
	}
	s.Finish() // it is there to the end
	if err := s.Populate(&evs); err != nil || len(gaps(evs)) != 4 || gaps(evs)[3].From != gaps(evs)[2].To {
		t.Errorf("a rule hides execs until the end: %d gaps, %v", len(gaps(evs)), err)
	}
	add(auditrule.Rule{List: auditrule.ListTask, Action: auditrule.Never})
	err = populateUntil(s, &evs, func() bool { return false })
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "task,never") {
		t.Errorf("new processes are not audited: %v", err)
	}
}

// A rule that excludes records of whoever adds it has none of its own, nor has one that is added
// when those of changes are excluded: a look from time to time finds them, as does the removal.
func TestHiddenRules(t *testing.T) {
	c := control(t)
	exclude := func(field, value uint32) auditrule.Rule {
		return auditrule.Rule{List: auditrule.ListExclude, Action: auditrule.Always, Fields: []auditrule.Field{{Field: field, Value: value}}}
	}
	const uid = 1
	for name, r := range map[string]auditrule.Rule{"of root": exclude(uid, 0), "of changes": exclude(auditrule.FieldMsgType, 1305)} {
		for _, removed := range []bool{false, true} {
			s := open(t, Options{}, source.Options{})
			conform.Drain(t, s)
			var evs conform.Events
			if s.lookEvery = 100_000_000; removed {
				s.lookEvery = 1 << 60
			}
			before := s.now()
			if err := c.Add(r.Bytes()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Delete(r.Bytes()) })
			if removed {
				c.Delete(r.Bytes())
			}
			if err := populateUntil(s, &evs, func() bool { return len(evs.Of(0, engine.KindGap)) > 0 }); err != nil {
				t.Fatal(err)
			}
			if gaps := evs.Of(0, engine.KindGap); len(gaps) != 1 || gaps[0].Gap.Cause != engine.LossUnseen || gaps[0].Gap.From > before {
				t.Errorf("%s, removed %v: %d gaps", name, removed, len(gaps))
			}
			c.Delete(r.Bytes())
			s.Close()
		}
	}
}
