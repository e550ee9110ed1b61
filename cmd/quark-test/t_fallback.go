package main

import (
	"slices"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
)

// fallback opens a queue without naming backends. It checks that the queue uses the first backend
// that can be opened, and reports why each earlier backend cannot be opened.
func fallback(t *test) {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	opened, attempts := q.Backend(), q.Attempts()
	if err := q.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	t.Logf("opened %s", opened)
	names := backends.All.Names()
	n := slices.Index(names, opened)
	if n < 0 {
		t.Fatalf("opened %s, want one of %s", opened, names)
	}
	before := names[:n]
	why := make(map[string]string) // by backend that can't be opened
	for _, name := range before {
		if why[name] = t.openFailure(name); why[name] == "" {
			t.Errorf("opened %s, want %s, which also opens", opened, name)
		}
	}
	if len(attempts) != len(before) {
		t.Errorf("got failed attempts %v, want %s", attempts, before)
	}
	for i, a := range attempts {
		if i < len(before) && (a.Backend != before[i] || a.Err.Error() != why[before[i]]) {
			t.Errorf("got failed attempt %v, want that of opening it alone: %s: %s", a, before[i], why[before[i]])
		}
	}
}

// openFailure opens and closes a backend. It returns the reason why the backend cannot be opened,
// or "".
func (t *test) openFailure(backend string) string {
	set, err := backends.Parse(backend)
	if err != nil {
		t.Fatalf("%v", err)
	}
	q, err := quark.Open(quark.Options{Backends: set, Strict: true})
	if err == nil {
		t.Logf("%s opens", backend)
		if err := q.Close(); err != nil {
			t.Errorf("close %s: %v", backend, err)
		}
		return ""
	}
	reason := err.Error()
	if _, after, ok := strings.Cut(reason, backend+": "); ok {
		reason = after
	}
	t.Logf("%s fails to open: %s", backend, reason)
	return reason
}
