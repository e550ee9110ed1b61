package style

import (
	"slices"
	"testing"
)

// Only bindings/c needs cgo: no other package has a file that imports "C", and without cgo the
// folder has no files.
func TestCgoIsConfined(t *testing.T) {
	const binding = module + "/bindings/c"
	t.Setenv("CGO_ENABLED", "1")
	for _, p := range goList(t, "./...") {
		if p.ImportPath != binding && len(p.CgoFiles) > 0 {
			t.Errorf("%s imports C in %q: cgo is for %s alone", p.ImportPath, p.CgoFiles, binding)
		}
	}
	t.Setenv("CGO_ENABLED", "0")
	if slices.ContainsFunc(goList(t, "./..."), func(p listed) bool { return p.ImportPath == binding }) {
		t.Errorf("%s has files without cgo: begin each with //go:build cgo", binding)
	}
}
