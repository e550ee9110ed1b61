package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRPM installs and erases packages in a directory with rpm. make test-dist runs it.
func TestRPM(t *testing.T) {
	for _, test := range []struct {
		name      string
		variables []string // environment variables with the files
		packages  []string
		list      []string // the list of packaging/, and variables of install.sh
	}{
		{"commands", []string{"QUARK_RPM"}, []string{"quark"}, []string{"files", "PACKAGE=quark"}},
		{"library", []string{"QUARK_LIB_RPM", "QUARK_LIBDEV_RPM"}, []string{"libquark", "libquark-devel"}, []string{"library", "LIBDIR=/usr/lib64"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var files []string
			for _, v := range test.variables {
				if os.Getenv(v) == "" {
					t.Skipf("%s does not name a package: make test-dist does", v)
				}
				files = append(files, os.Getenv(v))
			}
			testRPM(t, files, test.packages, test.list)
		})
	}
}

func testRPM(t *testing.T, files, packages, list []string) {
	root := t.TempDir()
	rpm := func(operands []string, args ...string) string {
		t.Helper()
		out, err := exec.Command("rpm", append(append([]string{"--root", root}, args...), operands...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %q %q: %v\n%s", args, operands, err, out)
		}
		return string(out)
	}
	ours := func() []string {
		return slices.DeleteFunc(filesBelow(t, root), func(path string) bool { return strings.Contains(path, "rpm/") || strings.Contains(path, "rpmdb/") })
	}
	// The scripts need a shell, which is missing.
	rpm(files, "--install", "--noscripts", "--nodeps")
	want := listed(t, list[0], list[1:]...)
	if got := ours(); !slices.Equal(got, want) {
		t.Errorf("got files %q in the package, want %q as from make install", got, want)
	}
	if out := rpm(packages, "--verify", "--noscripts", "--nodeps"); out != "" {
		t.Errorf("rpm --verify: %s", out)
	}
	rpm(packages, "--erase", "--noscripts", "--nodeps")
	if left := ours(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if left, err := filepath.Glob(filepath.Join(root, "usr/share/doc/*")); err != nil || len(left) > 0 {
		t.Errorf("got remaining directories %q, error %v", left, err)
	}
}
