package style

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The make targets that the workflows run exist.
func TestWorkflowTargets(t *testing.T) {
	targets := make(map[string]bool)
	for _, name := range []string{"../../Makefile", "../../packaging/build.mk"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z -]*):`).FindAllSubmatch(text, -1) {
			for target := range strings.FieldsSeq(string(m[1])) {
				targets[target] = true
			}
		}
	}
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)(?:run: |^ +)make ([a-z -]+)`).FindAllSubmatch(text, -1) {
			for target := range strings.FieldsSeq(string(m[1])) {
				if n++; !targets[target] {
					t.Errorf("%s: missing target %s", filepath.Base(name), target)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("%d targets in %q", n, files)
	}
}
