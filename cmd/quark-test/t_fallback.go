package main

import (
	"slices"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
)

// fallback opens a queue without naming backends: it has the first that can be opened, and reports
// for each before it why it cannot be opened.
func fallback(t *test) {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	opened, attempts := q.Backend(), q.Attempts()
	if err := q.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	t.Logf("%s is opened", opened)
	names := backends.All.Names()
	n := slices.Index(names, opened)
	if n < 0 {
		t.Fatalf("%s is opened, which is none of %s", opened, names)
	}
	before := names[:n]
	why := make(map[string]string) // of backends that can't be opened
	for _, name := range before {
		if why[name] = t.refusal(name); why[name] == "" {
			t.Errorf("%s is opened, but %s can be opened, too", opened, name)
		}
	}
	if len(attempts) != len(before) {
		t.Errorf("tried before: %v, want %s", attempts, before)
	}
	for i, a := range attempts {
		if i < len(before) && (a.Backend != before[i] || a.Err.Error() != why[before[i]]) {
			t.Errorf("tried before: %v; opened alone: %s: %s", a, before[i], why[before[i]])
		}
	}
}

// refusal opens and closes a backend. It returns why that can't be opened, or "".
func (t *test) refusal(backend string) string {
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
	t.Logf("%s is refused: %s", backend, reason)
	return reason
}
