package quark_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/quark-linux/quark"
)

// goModule is that of a user of the checkout.
const goModule = `module example.org/user

go 1.25.0

require github.com/quark-linux/quark v0.0.0

replace github.com/quark-linux/quark => `

// publicPackages are all that the programs of users import of this module.
var publicPackages = regexp.MustCompile(`"github.com/quark-linux/quark(/engine/enginetest)?"`)

// A module of a user builds, vets and tests its programs with the public packages alone: an audit
// logger, an exporter of counts and a detection, with unit tests that need no kernel. The audit
// logger then ends in order, and has lost nothing.
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
	if err := os.CopyFS(dir, os.DirFS("testdata/user")); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"go.mod": goModule + checkout + "\n", "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*", "*.go"))
	if err != nil || len(sources) != 6 {
		t.Fatalf("sources %q, %v", sources, err)
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
	auditEnds(t, exec.Command(filepath.Join(dir, "bin", "audit")))
}

// auditEnds lets the audit logger listen to commands, and ends it with a signal.
func auditEnds(t *testing.T, audit *exec.Cmd) {
	stderr, err := audit.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	audit.Stdout = &out
	if err := audit.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	first, err := said.ReadString('\n')
	if err != nil || !strings.Contains(first, "listening") {
		t.Errorf("said %q, %v", first, err)
	}
	const commands = 20
	for range commands {
		spawn(t)
	}
	audit.Process.Signal(syscall.SIGTERM)
	if rest, err := io.ReadAll(said); err != nil || len(rest) != 0 {
		t.Errorf("said %q, %v", rest, err)
	}
	if err := audit.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(first, "cnproc") {
		t.Skip("the proc connector does not know the path of a command that is so short")
	}
	path := `"path":"` + filepath.Dir(t.TempDir()) + "/"
	if n := strings.Count(out.String(), path); n != commands && !strings.Contains(out.String(), `"lost"`) {
		t.Errorf("%d of %d commands in\n%s", n, commands, out.String())
	}
}
