package seccompfail

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if err := FromEnv(); err != nil {
		println(err.Error())
		os.Exit(3)
	}
	if os.Getenv(Env) != "" {
		os.Exit(checkFiltered())
	}
	os.Exit(m.Run())
}

// checkFiltered returns 0 if fsopen fails, and clone3 exists but its newer feature fails.
func checkFiltered() int {
	_, err := unix.Fsopen("tracefs", 0)
	_, _, exists := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	_, _, large := unix.Syscall(unix.SYS_CLONE3, 0, 80, 0)
	if err != unix.ENOSYS || exists == unix.ENOSYS || large != unix.E2BIG {
		return 1
	}
	return 0
}

func TestCalls(t *testing.T) {
	for names, code := range map[string]int{"fsopen,clone3-set-tid": 0, "clone3": 1, "fork": 3} {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), Env+"="+names)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "install seccomp filter") {
			t.Skip(string(out)) // built without seccomp
		}
		if got := c.ProcessState.ExitCode(); got != code {
			t.Errorf("%s: got exit code %d, want %d: %s", names, got, code, out)
		}
	}
}
