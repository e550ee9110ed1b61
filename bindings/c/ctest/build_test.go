package ctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var built string // where the library is

// build builds the library once for all tests.
var build = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("../build.sh", built)
	cmd.Env = append(os.Environ(), "STRIP=-w", "GOOS=", "GOARCH=", "QUARK_VERSION=1.2.3")
	out, err := cmd.CombinedOutput()
	return string(out), err
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if built, err = os.MkdirTemp("", "libquark"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(built)
		return m.Run()
	}())
}

// library returns the folder of the built library, with lib and include.
func library(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("libquark is for Linux")
	}
	if testing.Short() {
		t.Skip("it compiles the library")
	}
	needs(t, "gcc", "to compile C: apt-get install gcc libc6-dev")
	needs(t, "go", "to build the library")
	if out, err := build(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	return built
}

// needs skips the test if a program is missing.
func needs(t testing.TB, program, why string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s, %s", program, why)
	}
}

// compile compiles C with the library and the flags from pkg-config. It returns the program, which
// can find the library.
func compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	lib := library(t)
	args := []string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-g"}
	args = append(append(args, flags...), source)
	program := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args = append(append(args, pkgConfig(t, lib)...), "-pthread", "-Wl,-rpath,"+lib+"/lib", "-o", program)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %q: %v\n%s", args, err, out)
	}
	return program
}

// pkgConfig returns the compiler and linker flags that pkg-config prints for the library.
func pkgConfig(t testing.TB, lib string) []string {
	t.Helper()
	if _, err := exec.LookPath("pkg-config"); err != nil {
		return []string{"-I" + lib + "/include", "-L" + lib + "/lib", "-lquark"}
	}
	cmd := exec.Command("pkg-config", "--cflags", "--libs", "quark = 1.2.3")
	cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+lib+"/lib/pkgconfig")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("pkg-config: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}
