package style

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

const root = "../.."

// documents name paths of this repository between back quotes.
var documents = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/performance.md", "docs/kernels.md",
	"docs/limits.md", "docs/benchmark.md", "docs/fidelity.md", "docs/install.md", "docs/library.md"}

var (
	quoted = regexp.MustCompile("`([a-zA-Z0-9_.*-]+(?:/[a-zA-Z0-9_.*-]+)*/?)`")
	linked = regexp.MustCompile(`\]\(([a-zA-Z0-9_./-]+)\)`)
	// isPath matches names with a directory of the repository, and names of its files.
	isPath = regexp.MustCompile(`^(backends|bindings|cmd|docs|engine|exitsnoop|fidelity|initramfs|internal|kernel_images|packaging|tools|\.github)/|^[a-z_]+\.(go|sh|md)$`)
	// made are paths that a command creates.
	made = regexp.MustCompile(`^kernel_images/(amd64|arm64|local)`)
)

// TestManualPages checks the manual pages with mandoc(1), like make docs.
func TestManualPages(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("needs mandoc: apt-get install mandoc")
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.[378]"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no manual pages: %v", err)
	}
	if out, err := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("needs groff for pages of 80 columns")
	}
	for _, page := range pages { // groff breaks no line in a cell of a table
		if out, err := exec.Command("groff", "-mdoc", "-Tutf8", "-rLL=80n", "-z", page).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", page, err, out)
		}
	}
}

// TestPathsInDocuments checks that files named in documents exist.
func TestPathsInDocuments(t *testing.T) {
	for _, document := range documents {
		data, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range quoted.FindAllSubmatch(data, -1) {
			if path := string(m[1]); isPath.MatchString(path) && !made.MatchString(path) {
				exists(t, document, path, path)
			}
		}
		for _, m := range linked.FindAllSubmatch(data, -1) {
			exists(t, document, string(m[1]), filepath.Join(filepath.Dir(document), string(m[1])))
		}
	}
}

func exists(t *testing.T, document, name, path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, path))
	if err != nil || len(found) == 0 {
		t.Errorf("%s names %s, which does not exist", document, name)
	}
}
