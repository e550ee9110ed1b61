package kernelversion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHidden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockdown")
	if err := os.WriteFile(file, []byte("none integrity [confidentiality]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{hidden("/dev", "/sys"), "/dev is not mounted (mount -t proc proc /dev)"},
		{hidden("/proc", "/nothing"), "/nothing is not mounted (mount -t sysfs sysfs /nothing)"},
		{covered("/dev"), "/dev/btf is missing: /dev is not sysfs (umount /dev)"},
		{lockdown(file), "the kernel is locked down (lockdown=confidentiality, " + file},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.want) {
			t.Errorf("got error %v, want %s", c.err, c.want)
		}
	}
	if err := os.WriteFile(file, []byte("none [integrity] confidentiality\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lockdown(file); err != nil {
		t.Error(err)
	}
}
