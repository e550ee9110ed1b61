//go:build linux

package tracefs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/seccompfail"
)

func TestMain(m *testing.M) {
	if err := seccompfail.FromEnv(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv(seccompfail.Env) != "" {
		_, err := mountDetached()
		fmt.Print(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Before Linux 5.2 the error names the remedy.
func TestNoDetachedMount(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), seccompfail.Env+"=fsopen")
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "install seccomp filter") {
		t.Skip(string(out)) // built without seccomp
	}
	if got := string(out); err != nil || !strings.Contains(got, "Linux 5.2") || !strings.Contains(got, "mount -t tracefs tracefs /sys/kernel/tracing") {
		t.Errorf("got %q, error %v, want the remedy", got, err)
	}
}
