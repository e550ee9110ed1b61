//go:build linux

package features

import (
	"errors"
	"fmt"
	"os"
	"strings"
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

func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		release, version string
		want             bool
	}{
		{"5.10.0-46-cloud-amd64", "5.8", false},
		{"5.10.0-46-cloud-amd64", "5.11", true},
		{"6.1.0", "5.10", false},
		{"6.1.0", "6.1", false},
		{"6.12.117+deb13-cloud-amd64", "6.6", false},
		{"7.3-rc1", "7.10", true},
	} {
		if got, err := older(tt.release, tt.version); err != nil || got != tt.want {
			t.Errorf("%s is older than %s: %v, %v", tt.release, tt.version, got, err)
		}
	}
	for _, bad := range []string{"", "x", "5", "-5.10", "5.9999999999999999999999"} {
		if _, err := older(bad, "5.10"); err == nil {
			t.Errorf("%q is a version", bad)
		}
	}
	if _, err := older("5.10", strings.Repeat("9", 99)); err == nil {
		t.Error("any number is a version")
	}
}
