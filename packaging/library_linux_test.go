package packaging

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLibraryPackages installs the packages of the library in a Debian with a compiler, by chroot,
// compiles and runs the example, and removes everything. make test-dist runs it.
func TestLibraryPackages(t *testing.T) {
	debs := map[string]string{"libquark0.deb": os.Getenv("QUARK_LIB_DEB"), "libquark-dev.deb": os.Getenv("QUARK_LIBDEV_DEB"), "quark.deb": os.Getenv("QUARK_DEB")}
	for name, deb := range debs {
		if deb == "" {
			t.Skipf("QUARK_LIB_DEB, QUARK_LIBDEV_DEB and QUARK_DEB do not name %s: make test-dist does", name)
		}
	}
	root := debianRoot(t, "gcc", "libc6-dev", "pkg-config")
	for name, deb := range debs {
		copyInto(t, root, deb, name, 0o644)
	}
	copyInto(t, root, "testdata/library.sh", "library.sh", 0o755)
	if err := os.Mkdir(filepath.Join(root, "host-sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	// Mounts are in a private namespace and end with it.
	out, err := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount --rbind /sys "$1/host-sys" && exec chroot "$1" /library.sh`, "sh", root).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "nothing is left\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}
