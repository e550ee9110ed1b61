package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// execOnOverlay executes a program on a tmpfs, and again through an overlay over this tmpfs.
func execOnOverlay() {
	dir := os.Args[1]
	conform.Try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	conform.Try("make mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	conform.Try("mount", unix.Mount("tmp", dir, "tmpfs", 0, ""))
	lower, other, merged := filepath.Join(dir, "lower"), filepath.Join(dir, "other"), filepath.Join(dir, "merged")
	for _, d := range []string{lower, other, merged} {
		conform.Try("make directory", os.Mkdir(d, 0o755))
	}
	conform.Try("write program", tinyelf.Write(filepath.Join(lower, "program"), 0))
	conform.Try("mount overlay", unix.Mount("overlay", merged, "overlay", 0, "lowerdir="+lower+":"+other))
	for _, d := range []string{lower, merged} {
		conform.Try("run", exec.Command(filepath.Join(d, "program")).Run())
	}
}

// On older kernels, the inode of a file on overlayfs may differ from the number that stat(2)
// returns. With the types of such a kernel, ExeFile is unknown on overlayfs and known elsewhere.
func TestExecutableOnOverlay(t *testing.T) {
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\toverlay\n") {
		t.Skip("the kernel has no overlayfs, or its module is not loaded")
	}
	kernel, err := (&source.Options{BTF: btfhub.Options{Whole: true}}).Types()
	if err != nil {
		t.Skip(err)
	}
	types := kernel.Spec
	for _, older := range []bool{false, true} {
		if missing := missingMember(types, "nsproxy.time_ns"); missing != "" && !older {
			continue
		}
		same, err := types.AnyTypesByName("nsproxy")
		if err != nil {
			t.Fatal(err)
		}
		for _, nsproxy := range same {
			members := nsproxy.(*btf.Struct).Members
			for i, m := range members {
				if older && m.Name == "time_ns" {
					members[i].Name = "not_yet"
				}
			}
		}
		s := openShared(t, source.Options{KernelTypes: types}, Options{})
		field := s.Capabilities().Fields[engine.FieldExeFile]
		if partial, said := field.Partial != 0, strings.Contains(field.Via, "overlayfs"); partial != older || said != older {
			t.Errorf("older=%v: got capability %+v", older, field)
		}
		dir := t.TempDir()
		execs := 0
		for _, ev := range conform.Run(t, s, conform.Child("on-overlay", dir)) {
			path, below := strings.CutPrefix(string(ev.Bytes(engine.FieldExe)), dir)
			if ev.Kind != engine.KindExec || !below {
				continue
			}
			execs++
			if known, want := ev.Task.Known.Has(engine.FieldExeFile), !older || path == "/lower/program"; known != want {
				t.Errorf("older=%v: got known(%s) = %v, want %v", older, path, known, want)
			}
		}
		if execs != 2 {
			t.Errorf("older=%v: got %d EXECs, want 2", older, execs)
		}
		s.Close()
	}
}
