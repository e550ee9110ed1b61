package style

import (
	"go/version"
	"os"
	"os/exec"
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
		vet := exec.Command("go", "vet", ".", "./engine/...", "./cmd/quark-mon")
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
