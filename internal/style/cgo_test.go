package style

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// binding is the only folder that needs cgo.
const binding = "bindings/c"

// No other package imports "C", and without cgo the folder has no files: each has a build
// constraint.
func TestCgoIsConfined(t *testing.T) {
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		if filepath.Dir(name) == binding {
			if lines[0] != "//go:build cgo" {
				t.Errorf("%s does not begin with //go:build cgo", name)
			}
		} else if slices.ContainsFunc(lines, func(line string) bool { return strings.TrimPrefix(strings.TrimSpace(line), "import ") == `"C"` }) {
			t.Errorf("%s imports C: cgo is for %s alone", name, binding)
		}
	}
	list := exec.Command("go", "list", "./...")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Skipf("go list, which needs the module's source: %v", err)
	}
	if packages := strings.Fields(string(out)); slices.Contains(packages, module+"/"+binding) || !slices.Contains(packages, module) {
		t.Errorf("without cgo there are the packages %q", packages)
	}
}
