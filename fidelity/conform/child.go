package conform

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// programVariable makes a test binary run a program instead of its tests.
const programVariable = "QUARK_CONFORM_PROGRAM"

// tryFailed is the exit code of a child that met an error.
const tryFailed = 99

func init() {
	if os.Getenv(programVariable) != "" {
		runtime.LockOSThread() // programs run on the leader of the thread group
	}
}

// Main is the TestMain of a package whose tests use this one. The programs are what
// Child can start beside "exit", which ends at once with code 7.
func Main(m *testing.M, programs map[string]func()) {
	scenario.Main()
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if name == "exit" {
		os.Exit(7)
	}
	program := programs[name]
	if program == nil {
		Try("start", fmt.Errorf("the test binary has no program %q", name))
	}
	program()
	os.Exit(0)
}

// Child is a command that runs a program of this test binary.
func Child(program string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), programVariable+"="+program)
	c.Stderr = os.Stderr
	return c
}

// Try ends a child that met an error; Run then fails the test.
func Try(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "child: %s: %v\n", what, err)
		os.Exit(tryFailed)
	}
}
