package monitor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ownMounts is set in the environment of a test that has a mount namespace of its own.
const ownMounts = "QUARK_TEST_OWN_MOUNTS"

// What is new when a monitor has ended is told, with what removes it, and what was there before is
// not. The file system of eBPF is one of its own, so that monitors of other tests do not see it.
func TestLeftovers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if os.Getenv(ownMounts) == "" {
		test := exec.Command("/proc/self/exe", "-test.run=^TestLeftovers$", "-test.v")
		test.Env = append(os.Environ(), ownMounts+"=1")
		test.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		out, err := test.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil {
		t.Skip(err)
	}
	pin := func(name string) string {
		t.Helper()
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		if err != nil {
			t.Skip(err)
		}
		defer m.Close()
		path := filepath.Join("/sys/fs/bpf", fmt.Sprintf("quark-test-%d-%s", os.Getpid(), name))
		if err := m.Pin(path); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { os.Remove(path) })
		return path
	}
	before := pin("before")
	r, err := fake(`trap 'exit 0' INT; ` + forever).Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	after := pin("after")
	_, notes := r.Stop()
	want := fmt.Sprintf("new since it was started: an eBPF object, %s (to remove it: rm %s)", after, after)
	if !slices.Contains(notes, want) || strings.Contains(strings.Join(notes, "\n"), before) {
		t.Errorf("%q, not %q", notes, want)
	}
}

func TestHasNumber(t *testing.T) {
	if !hasNumber("kprobes/p_do_exit_bcc_123", 123) || hasNumber("kprobes/p_do_exit_bcc_1234", 123) || hasNumber("x", 0) {
		t.Error("a pid in a name is not found, or one that is not there")
	}
}
