//go:build linux && (amd64 || arm64)

package quark_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/internal/retry"
)

// On a host with both versions of cgroups Process.Cgroup is that of version 2, and Cgroups has all.
func TestCgroups(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("it mounts a cgroup hierarchy: needs root")
	}
	hierarchy := fmt.Sprintf("name=quark%d", os.Getpid())
	root := t.TempDir()
	mount := func() error { return unix.Mount("cgroup", root, "cgroup", 0, "none,"+hierarchy) }
	if err := mount(); err != nil {
		t.Skipf("no cgroup v1: %v", err)
	}
	group := filepath.Join(root, "group")
	t.Cleanup(func() {
		os.Remove(group)
		// A hierarchy that is unmounted before the kernel has freed all groups stays: a
		// line more in the file cgroup of each process from then on.
		for gone, tries := false, 0; !gone; tries++ {
			if tries == 10 {
				t.Fatalf("%s is still there", hierarchy)
			}
			if tries > 0 {
				if err := mount(); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Unmount(root, 0); err != nil {
				t.Fatal(err)
			}
			for range retry.For(time.Second) {
				b, err := os.ReadFile("/proc/self/cgroup")
				if gone = err != nil || !bytes.Contains(b, []byte(hierarchy+":")); gone {
					break
				}
			}
		}
	})
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestCgroups$")
	child.Env = append(os.Environ(), inNamespace+"="+t.Name())
	end, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, child.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		p := q.Lookup(uint32(child.Process.Pid)).Clone()
		paths, err := q.Cgroups(p)
		if unified, ok := paths[""]; err != nil || paths[hierarchy] != "/group" || ok && unified != p.Cgroup {
			t.Errorf("cgroups %q, %v; the process has %q", paths, err, p.Cgroup)
		}
		p.Start += 1e9
		if paths, err := q.Cgroups(p); err == nil {
			t.Errorf("another process of this pid is in %q", paths)
		}
	})
	end.Close()
	child.Wait()

	q, err := quark.New(enginetest.NewMachine(), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Cgroups(q.Lookup(1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without /proc: %v", err)
	}
}
