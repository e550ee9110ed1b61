package main

import (
	"os"
	"slices"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/internal/harness/refusals"
)

// fallback opens a queue without naming backends: it has the first that can be opened, and says of
// each before it why it can't. On a machine that is known to refuse some, it has to refuse these,
// with words that say what is missing, and no others.
func fallback(t *test) {
	var opened string
	why := make(map[string]string) // of backends that can't be opened
	for _, name := range backends.All.Names() {
		set, err := backends.Parse(name)
		if err != nil {
			t.Fatalf("%v", err)
		}
		q, err := quark.Open(quark.Options{Backends: set, Strict: true})
		if err != nil {
			why[name] = strings.TrimPrefix(err.Error(), "no backend can be used: "+name+": ")
			t.Logf("%s is refused: %s", name, why[name])
			continue
		}
		t.Logf("%s opens", name)
		if opened == "" {
			opened = name
		}
		if err := q.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	}

	q, err := quark.Open(quark.Options{})
	if opened == "" {
		if err == nil {
			q.Close()
			t.Fatalf("%s is opened, which can't be opened alone", q.Backend())
		}
		for name, reason := range why {
			if !strings.Contains(err.Error(), name+": "+reason) {
				t.Errorf("the error does not say of %s %q: %v", name, reason, err)
			}
		}
	} else if err != nil {
		t.Errorf("nothing is opened, where %s can be: %v", opened, err)
	} else {
		defer q.Close()
		if q.Backend() != opened {
			t.Errorf("%s is opened, want %s", q.Backend(), opened)
		}
		names := backends.All.Names()
		before := names[:slices.Index(names, opened)]
		if len(q.Attempts()) != len(before) {
			t.Errorf("%d backends are said to have been tried before, want %s", len(q.Attempts()), before)
		}
		for i, a := range q.Attempts() {
			if i < len(before) && (a.Backend != before[i] || a.Err.Error() != why[a.Backend]) {
				t.Errorf("tried before: %v; opened alone: %s: %s", a, before[i], why[before[i]])
			}
		}
	}
	t.wantRefusals(why)
}

// wantRefusals compares the reasons of backends that can't be opened with those that the machine is
// known to have.
func (t *test) wantRefusals(why map[string]string) {
	value, known := os.LookupEnv(refusals.Variable)
	if !known {
		return
	}
	want, err := refusals.Decode(value)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, name := range backends.All.Names() {
		words, refused := want[name]
		switch reason, is := why[name]; {
		case refused && !is:
			t.Errorf("%s can be opened, want it refused with %q", name, words)
		case refused && !strings.Contains(reason, words):
			t.Errorf("%s is refused with %q, want %q in it", name, reason, words)
		case !refused && is:
			t.Errorf("%s is refused: %s", name, reason)
		}
	}
}
