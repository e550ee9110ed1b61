package quark_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
)

// goModule is the go.mod of a user of the checkout.
const goModule = `module example.org/user

go 1.25.0

require github.com/quark-linux/quark v0.0.0

replace github.com/quark-linux/quark => `

// publicPackages matches the packages of this module that users may import.
var publicPackages = regexp.MustCompile(`"github.com/quark-linux/quark(/engine/enginetest|/exitsnoop)?"`)

// A user's module can build, vet and test the examples with only the public packages: the unit
// tests need no kernel. Then one example runs a command.
func TestUser(t *testing.T) {
	checkout, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if _, missing := exec.LookPath("go"); missing != nil || err != nil {
		t.Skip("needs the go command and the module's source")
	}
	dir := t.TempDir()
	for _, name := range []string{"webshell", "containers", "supervise"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("examples", name))); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{"go.mod": goModule + checkout + "\n", "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*", "*.go"))
	if err != nil || len(sources) != 6 {
		t.Fatalf("got sources %q, error %v", sources, err)
	}
	for _, name := range sources {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if rest := publicPackages.ReplaceAllString(string(data), ""); strings.Contains(rest, `"github.com/quark-linux/`) {
			t.Errorf("%s imports more than the public packages", name)
		}
	}
	for _, command := range []string{"build -o bin/ ./...", "vet ./...", "test ./..."} {
		cmd := exec.Command("go", strings.Fields(command)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); strings.Contains(string(out), "GOPROXY=off") {
			t.Skipf("the module cache lacks something: %s", out)
		} else if err != nil {
			t.Fatalf("go %s: %v\n%s", command, err, out)
		}
	}
	if err := tryBackend(quark.Options{}); err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(filepath.Join(dir, "bin", "supervise"), "sh", "-c", "exit 3; :").Output()
	if err != nil || !strings.Contains(string(out), ": code 3\n[sh -c exit 3; :]: CPU ") {
		t.Errorf("%v: %s", err, out)
	}
}
