package packaging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const unitFile = "usr/lib/systemd/system/quark-mon.service"

// systemdAnalyze runs systemd-analyze on the installed unit, which runs the installed command.
func systemdAnalyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze, of the package systemd")
	}
	dir := installed(t)
	unit, err := os.ReadFile(filepath.Join(dir, unitFile))
	if err != nil {
		t.Fatal(err)
	}
	// systemd-analyze verify looks for the command.
	unit = bytes.ReplaceAll(unit, []byte("=/usr/bin/"), []byte("="+dir+"/usr/bin/"))
	path := filepath.Join(t.TempDir(), "quark-mon.service")
	if err := os.WriteFile(path, unit, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", append(args, path)...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// The unit is checked without drop-ins, and with each documented drop-in. The threshold is 3.0 of
// 10.
func TestUnitIsHardened(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze, of the package systemd")
	}
	dropIns, err := filepath.Glob("*.conf")
	if err != nil || len(dropIns) == 0 {
		t.Fatal("no drop-ins", err)
	}
	levels := make(map[string]string)
	for _, dropIn := range append([]string{""}, dropIns...) {
		root := t.TempDir()
		unit, err := os.ReadFile(filepath.Join(installed(t), unitFile))
		path := filepath.Join(root, unitFile)
		if err := errors.Join(err, os.MkdirAll(path+".d", 0o755), os.WriteFile(path, unit, 0o644)); err != nil {
			t.Fatal(err)
		}
		if dropIn != "" {
			copyInto(t, path+".d", dropIn, dropIn, 0o644)
		}
		out, err := exec.Command("systemd-analyze", "security", "--root="+root, "--offline=yes", "--threshold=30", "--no-pager", "quark-mon.service").CombinedOutput()
		level := regexp.MustCompile(`exposure level .*: ([\d.]+)`).FindSubmatch(out)
		if err != nil || level == nil {
			t.Errorf("%s: %v\n%s", dropIn, err, out)
			continue
		}
		levels[dropIn] = string(level[1])
		t.Logf("%s: %s", dropIn, level[1])
	}
	for _, dropIn := range dropIns {
		if levels[dropIn] == levels[""] {
			t.Errorf("%s has no effect: it was not read", dropIn)
		}
	}
}

func TestUnitIsValid(t *testing.T) {
	// Ignore messages about other units of this machine.
	for line := range strings.Lines(systemdAnalyze(t, "verify", "--man=no", "--recursive-errors=no")) {
		if strings.Contains(line, "quark-mon") {
			t.Error(line)
		}
	}
}

// setting returns the value of a setting of the unit.
func setting(t *testing.T, name string) string {
	t.Helper()
	unit, err := os.ReadFile("quark-mon.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatalf("the unit has no %s", name)
	}
	return string(m[1])
}

// capabilityNumbers are the numbers of capabilities in these units (linux/capability.h).
var capabilityNumbers = map[string]uintptr{"CAP_SYS_PTRACE": 19, "CAP_PERFMON": 38, "CAP_BPF": 39}

// runWith runs quark-mon with the unit's options and only these capabilities, as the unit does. The
// user is not root and cannot get more. It returns the output.
func runWith(t *testing.T, names []string, options ...string) (stdout, stderr []byte, err error) {
	t.Helper()
	dir := installed(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var ambient []uintptr
	for _, name := range names {
		n, ok := capabilityNumbers[name]
		if !ok {
			t.Fatalf("the number of %s is unknown here", name)
		}
		ambient = append(ambient, n)
	}
	args := strings.Fields(strings.Trim(setting(t, "Environment=QUARK_MON_OPTIONS"), `"`))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(dir, "usr/bin/quark-mon"), append(args, options...)...)
	c.Dir = "/"
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: ambient}
	done := make(chan error)
	go func() {
		// A child inherits the bounding set of the thread that starts it. The thread ends
		// with this function.
		runtime.LockOSThread()
		for n := uintptr(0); ; n++ {
			if unix.Prctl(unix.PR_CAPBSET_READ, n, 0, 0, 0) != nil {
				break
			}
			if !slices.Contains(ambient, n) && unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0) != nil {
				done <- errors.New("capabilities can't be dropped")
				return
			}
		}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- err
			return
		}
		done <- c.Run()
	}()
	err = <-done
	return out.Bytes(), errs.Bytes(), err
}

// The unit's capabilities are enough, and none can be left out.
func TestUnitHasTheCapabilitiesItNeeds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give capabilities to other users")
	}
	installed(t)
	all := strings.Fields(setting(t, "AmbientCapabilities"))
	if bounding := strings.Fields(setting(t, "CapabilityBoundingSet")); !slices.Equal(all, bounding) {
		t.Errorf("got ambient capabilities %q, bounding set %q, want equal sets", all, bounding)
	}
	if _, errs, err := runWith(t, []string{"CAP_BPF", "CAP_PERFMON"}, "-d", "10ms"); err != nil {
		t.Skipf("eBPF does not work here: %v: %s", err, errs)
	}
	// This process belongs to another user, is older than quark-mon, and has more arguments
	// than are kept. Only /proc can describe it.
	arguments := append([]string{"60"}, slices.Repeat([]string{"0"}, 50_000)...)
	old := exec.Command("sleep", arguments...)
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		old.Process.Kill()
		old.Wait()
	}()
	works := func(names []string) (missing string) {
		out, errs, err := runWith(t, names, "--no-snapshot=false", "-d", "500ms")
		if err != nil {
			return err.Error() + ": " + string(errs)
		}
		for line := range bytes.Lines(out) {
			var e struct {
				Process struct {
					PID  int
					Cwd  *string
					Args []string
				}
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return err.Error()
			}
			if p := e.Process; p.PID == old.Process.Pid {
				if p.Cwd == nil || len(p.Args) < 2 || p.Args[1] != "60" {
					return "of an older process not all is known"
				}
				return ""
			}
		}
		return "an older process is missing"
	}
	missing := works(all)
	for try := 1; missing != "" && try < 3; try++ { // it may have been read while it changed
		missing = works(all)
	}
	if missing != "" {
		t.Errorf("with the capabilities of the unit: %s", missing)
	}
	for i, name := range all {
		if works(slices.Delete(slices.Clone(all), i, i+1)) == "" {
			t.Errorf("%s is not needed", name)
		}
	}
}
