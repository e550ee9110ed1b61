//go:build linux

package features

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// TestTable holds the claims against this kernel.
func TestTable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	seen := make(map[string]bool)
	for _, f := range Table {
		name := f.Backend + ": " + f.Name
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		found, err := f.Check()
		t.Logf("%s: %s", name, found)
		if err != nil {
			t.Error(err)
		}
	}
}

// TestCheck: a claim that is not true is an error, whichever way it is wrong.
func TestCheck(t *testing.T) {
	no := fmt.Errorf("not here: %w", errors.ErrUnsupported)
	for _, tt := range []struct {
		name  string
		since string
		probe error
		built string
		found string
		bad   bool
	}{
		{"there", "2.6", nil, "", "there", false},
		{"earlier than claimed", "999.1", nil, "", "there", true},
		{"later than claimed", "2.6", no, "", "absent", true},
		{"not yet", "999.1", no, "", "absent before 999.1", false},
		{"built without", "2.6", no, "no CONFIG_X", "no CONFIG_X", false},
		{"not known", "2.6", errors.New("broken"), "", "absent", true},
		{"not known and not claimed", "999.1", errors.New("broken"), "", "absent", true},
	} {
		f := Feature{Backend: "b", Name: "n", Since: tt.since, Probe: func() error { return tt.probe }, Built: func() string { return tt.built }}
		found, err := f.Check()
		if found != tt.found || (err != nil) != tt.bad {
			t.Errorf("%s: %q, %v", tt.name, found, err)
		}
	}
}
