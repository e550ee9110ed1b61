package kernelversion

import (
	"strings"
	"testing"
)

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
		if got, err := Older(tt.release, tt.version); err != nil || got != tt.want {
			t.Errorf("%s is older than %s: %v, %v", tt.release, tt.version, got, err)
		}
	}
	for _, bad := range []string{"", "x", "5", "-5.10", "5.9999999999999999999999"} {
		if _, err := Older(bad, "5.10"); err == nil {
			t.Errorf("%q is a version", bad)
		}
	}
	if _, err := Older("5.10", strings.Repeat("9", 99)); err == nil {
		t.Error("any number is a version")
	}
}
