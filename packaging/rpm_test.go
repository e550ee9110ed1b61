package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRPM has rpm install and erase the package in a directory. make test-dist runs it.
func TestRPM(t *testing.T) {
	file := os.Getenv("QUARK_RPM")
	if file == "" {
		t.Skip("QUARK_RPM does not name a package: make test-dist does")
	}
	root := t.TempDir()
	rpm := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("rpm", append([]string{"--root", root}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	ours := func() []string {
		return slices.DeleteFunc(filesBelow(t, root), func(path string) bool { return strings.Contains(path, "rpm/") || strings.Contains(path, "rpmdb/") })
	}
	// The scripts want a shell, which is not there.
	rpm("--install", "--noscripts", "--nodeps", file)
	want := filesBelow(t, installed(t))
	if got := ours(); !slices.Equal(got, want) {
		t.Errorf("the package has %q, make install installs %q", got, want)
	}
	if out := rpm("--verify", "--noscripts", "--nodeps", "quark"); out != "" {
		t.Errorf("rpm --verify: %s", out)
	}
	rpm("--erase", "--noscripts", "--nodeps", "quark")
	if left := ours(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/share/doc/quark")); err == nil {
		t.Error("quark's own directory is left")
	}
}
