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
			t.Errorf("%s older than %s: got %v, error %v", tt.release, tt.version, got, err)
		}
	}
	for _, bad := range []string{"", "x", "5", "-5.10", "5.9999999999999999999999"} {
		if _, err := Older(bad, "5.10"); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
	if _, err := Older("5.10", strings.Repeat("9", 99)); err == nil {
		t.Error("a number of 99 digits: got no error")
	}
}

func TestIsRealtime(t *testing.T) {
	for version, want := range map[string]bool{
		"#1 SMP PREEMPT_RT Debian 6.1.119-1 (2024-11-22)":        true,
		"#1 SMP PREEMPT RT Debian 4.19.260-1 (2022-09-29)":       true,
		"#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)":   false,
		"#1 SMP Debian 5.10.226-1 (2024-10-03)":                  false,
		"#94-Ubuntu SMP PREEMPT_RT Mon Feb 17 11:48:39 UTC 2025": true,
	} {
		if got := isRealtime(version); got != want {
			t.Errorf("%s: got %v", version, got)
		}
	}
}
