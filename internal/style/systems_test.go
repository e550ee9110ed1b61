package style

import (
	"go/version"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// Users' code that handles events is built and tested on systems where quark has no backend, and
// quark-mon replays recordings there.
func TestPublicPackagesOnOtherSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles quark-mon and the public packages for other systems")
	}
	for _, system := range []string{"darwin/arm64", "windows/amd64", "freebsd/amd64", "linux/386", "linux/arm", "linux/riscv64", "linux/s390x"} {
		goos, goarch, _ := strings.Cut(system, "/")
		vet := exec.Command("go", "vet", ".", "./engine/...", "./cmd/quark-mon/watch")
		vet.Dir = root
		vet.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		if out, err := vet.CombinedOutput(); err != nil {
			t.Errorf("go vet for %s: %v\n%s", system, err, out)
		}
	}
}

// Who imports quark needs no newer Go than its dependencies do.
func TestLeastGo(t *testing.T) {
	own, least := "", ""
	for _, p := range goList(t, "-deps", "-test", "./...") {
		if v := "go" + p.Module.GoVersion; p.Module.Path == module {
			own = v
		} else if p.Module.GoVersion != "" && version.Compare(v, least) > 0 {
			least = v
		}
	}
	if version.Compare(own, least) > 0 {
		t.Errorf("go.mod wants %s, and all that it requires no more than %s", own, least)
	}
}

// On an architecture without programs Open says so, and New works: Linux on 386 runs on amd64, too.
func TestOpenOn386(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("it compiles the tests of package quark for 386, and runs some on linux/amd64")
	}
	run := exec.Command("go", "test", "-v", "-run", "^(TestOpenElsewhere|TestNew|TestNobody)$", ".")
	run.Dir, run.Env = root, append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	out, err := run.CombinedOutput()
	if strings.Contains(string(out), "exec format error") {
		t.Skip("the kernel runs no 32-bit programs")
	}
	if err != nil || strings.Count(string(out), "--- PASS") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}
