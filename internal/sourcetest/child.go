package sourcetest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// The tests run their own binary again as the process to be seen: this variable
// names the program of it that then runs instead of the tests.
const programVariable = "QUARK_SOURCETEST_PROGRAM"

// tryFailed is the exit code of a child that could not do what it should.
const tryFailed = 99

func init() {
	if os.Getenv(programVariable) != "" {
		runtime.LockOSThread() // main runs on the leader of the thread group
	}
}

// Main is the TestMain of a package whose tests use Child. Own are programs
// beside those of this package.
func Main(m *testing.M, own map[string]func()) {
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	program := own[name]
	if program == nil {
		program = programs[name]
	}
	if program == nil {
		Try("start", fmt.Errorf("there is no program %q", name))
	}
	program()
	os.Exit(0)
}

// Child is a command that runs a program of this binary.
func Child(program string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), programVariable+"="+program)
	c.Stderr = os.Stderr
	return c
}

// Try ends a child that met an error, so that Run fails.
func Try(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "child: %s: %v\n", what, err)
		os.Exit(tryFailed)
	}
}

// become executes this binary, found at path, with another program.
func become(path, program string, args ...string) {
	Try("exec", syscall.Exec(path, append([]string{"sh"}, args...), []string{programVariable + "=" + program}))
}
