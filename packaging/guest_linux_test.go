package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"github.com/quark-linux/quark/internal/harness/machine"
)

// lifeUnit is the unit of the guest that runs life.sh.
const lifeUnit = `[Unit]
DefaultDependencies=no
After=basic.target systemd-journald.service
Wants=basic.target
[Service]
Type=oneshot
ExecStart=/life.sh
StandardOutput=tty
`

// TestDebianGuest installs, starts, watches, upgrades and removes the package in a guest with a
// Debian system under systemd. make test-dist runs it: it takes minutes.
func TestDebianGuest(t *testing.T) {
	deb, kernel := os.Getenv("QUARK_DEB"), os.Getenv("QUARK_KERNEL")
	if deb == "" || kernel == "" {
		t.Skip("QUARK_DEB and QUARK_KERNEL do not name a package and a kernel: make test-dist does")
	}
	root := debianRoot(t, "systemd", "systemd-sysv")
	for _, name := range []string{"quark", "quark-export", "quark-tools"} {
		copyInto(t, root, filepath.Join(filepath.Dir(deb), strings.Replace(filepath.Base(deb), "quark", name, 1)), name+".deb", 0o644)
	}
	copyInto(t, root, "testdata/life.sh", "life.sh", 0o755)
	version, err := exec.Command("dpkg-deb", "-f", deb, "Version").Output()
	if err != nil {
		t.Fatal(err)
	}
	// The command prints the version of the package.
	for name, text := range map[string]string{
		"version":                         "v" + strings.Replace(string(version), "~", "-", 1),
		"etc/systemd/system/life.service": lifeUnit,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	results, err := os.Create(filepath.Join(t.TempDir(), "results"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	var console bytes.Buffer
	vm, err := machine.Start(machine.Config{
		Kernel: kernel, Initramfs: archive(t, root), Memory: 2048, Command: []string{"none"}, Results: results, Console: &console,
		Append: "rdinit=/lib/systemd/systemd systemd.unit=life.service systemd.show_status=no",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	select {
	case <-vm.Done():
	case <-time.After(15 * time.Minute):
		vm.Stop()
		t.Error("the guest takes too long")
	}
	said, err := os.ReadFile(results.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", said)
	passed := regexp.MustCompile(`(?m)^ok `).FindAll(said, -1)
	if bytes.Contains(said, []byte("FAIL ")) || len(passed) < 30 || !bytes.Contains(said, []byte("ok nothing is left")) {
		t.Errorf("%d steps passed; the console:\n%s\n%s", len(passed), console.String(), vm.Panic())
	}
}

// debianRoot creates a Debian of this machine's release with the given packages, from this
// machine's archives.
func debianRoot(t *testing.T, packages ...string) string {
	t.Helper()
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		t.Fatal(err)
	}
	suite := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)`).FindSubmatch(release)
	if suite == nil {
		t.Skip("needs Debian")
	}
	root := filepath.Join(t.TempDir(), "root")
	c := exec.Command("mmdebstrap", "--mode=root", "--variant=minbase", "--include="+strings.Join(packages, ","), "--format=directory",
		"--customize-hook=rm -rf \"$1\"/usr/share/locale/* \"$1\"/usr/share/doc/* \"$1\"/var/lib/apt/lists/*", "--quiet", string(suite[1]), root)
	if dump, err := exec.Command("apt-config", "dump").Output(); err == nil {
		// The settings of this machine's apt for downloads.
		for line := range strings.Lines(string(dump)) {
			if regexp.MustCompile(`^Acquire::(http|https|Retries|Check)\b`).MatchString(line) {
				c.Args = append(c.Args[:1], append([]string{"--aptopt=" + strings.TrimSpace(line)}, c.Args[1:]...)...)
			}
		}
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	return root
}

func copyInto(t *testing.T, root, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, to), data, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// archive returns the path of an initramfs with the contents of a directory.
func archive(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "initramfs")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := cpio.Newc.Writer(f)
	recorder := cpio.NewRecorder()
	err = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		if strings.HasPrefix(name, "dev/") && name != "dev/console" && name != "dev/null" {
			return nil
		}
		record, err := recorder.GetRecord(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		record.Name = name
		return w.WriteRecord(record)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cpio.WriteTrailer(w); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
