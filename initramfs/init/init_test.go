//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
)

func TestMountTable(t *testing.T) {
	for name, table := range map[string][]mount{"cgroup2": cgroup2, "cgroup1": cgroup1} {
		t.Run(name, func(t *testing.T) { testMountTable(t, slices.Concat(mounts, table)) })
	}
}

func testMountTable(t *testing.T, table []mount) {
	made := []string{"/"}
	for _, m := range table {
		if !path.IsAbs(m.target) || m.target != path.Clean(m.target) {
			t.Errorf("%s is not a clean absolute path", m.target)
		}
		if slices.Contains(made, m.target) {
			t.Errorf("%s is mounted twice", m.target)
		}
		for _, earlier := range made {
			if strings.HasPrefix(earlier, m.target+"/") {
				t.Errorf("%s would hide %s, mounted before it", m.target, earlier)
			}
		}
		made = append(made, m.target)
	}
}

func TestMountAll(t *testing.T) {
	table := []mount{
		{target: "/a", fstype: "a"},
		{target: "/b", fstype: "b", required: true},
		{target: "/c", fstype: "c", required: true},
		{target: "/d", fstype: "d"},
	}
	for _, tt := range []struct {
		name    string
		fails   string
		missing []string
		err     string
	}{
		{"all there", "", nil, ""},
		{"optional missing", "ad", []string{"mount a on /a: no such device", "mount d on /d: no such device"}, ""},
		{"required missing", "bc", []string{"mount b on /b: no such device", "mount c on /c: no such device"}, "mount b on /b: no such device"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tried := 0
			missing, err := mountAll(table, func(m mount) error {
				tried++
				if strings.Contains(tt.fails, m.fstype) {
					return unix.ENODEV
				}
				return nil
			})
			if tried != len(table) {
				t.Errorf("%d mounts tried, want all %d", tried, len(table))
			}
			if !slices.Equal(missing, tt.missing) {
				t.Errorf("missing %q, want %q", missing, tt.missing)
			}
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status unix.WaitStatus
		want   record.End
	}{
		{"exit 0", 0, record.End{}},
		{"exit 3", 3 << 8, record.End{Status: 3}},
		{"killed", 9, record.End{Status: 137, Signal: 9}},
		{"core dumped", 11 | 0x80, record.End{Status: 139, Signal: 11, CoreDumped: true}},
	} {
		if got := ended(tt.status); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestNotStarted(t *testing.T) {
	if got := notStarted("/bin/x", fs.ErrNotExist).Status; got != 127 {
		t.Errorf("status of a missing command is %d, want 127", got)
	}
	if got := notStarted("/bin/x", unix.ENOEXEC).Status; got != 126 {
		t.Errorf("status of a command that cannot run is %d, want 126", got)
	}
}

func TestReapUntil(t *testing.T) {
	type reaped struct {
		pid    int
		status unix.WaitStatus
		err    error
	}
	queue := []reaped{{7, 0, nil}, {0, 0, unix.EINTR}, {8, 1 << 8, nil}, {42, 3 << 8, nil}, {9, 0, nil}}
	next := func() (int, unix.WaitStatus, error) {
		r := queue[0]
		queue = queue[1:]
		return r.pid, r.status, r.err
	}
	status, err := reapUntil(42, next)
	if err != nil || status.ExitStatus() != 3 {
		t.Errorf("status %d, error %v; want 3 and none", status.ExitStatus(), err)
	}
	if len(queue) != 1 {
		t.Errorf("%d children left unreaped, want the one after", len(queue))
	}

	_, err = reapUntil(42, func() (int, unix.WaitStatus, error) { return 0, 0, unix.ECHILD })
	if !errors.Is(err, unix.ECHILD) {
		t.Errorf("error %v, want ECHILD", err)
	}
}

func TestEnvironment(t *testing.T) {
	env := environment(options{results: "ttyS0", env: []string{"RING=1"}})
	for _, want := range []string{"PATH=/bin", "HOME=/", "QUARK_INITRAMFS=1", "QUARK_RESULTS=/dev/ttyS0", "RING=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", env, want)
		}
	}
}

func TestNoCommand(t *testing.T) {
	if e := runCommand(options{}); e.Status != statusInit || e.Error == "" {
		t.Errorf("%+v: want status %d and a reason", e, statusInit)
	}
}

// A results port that is not a terminal works too.
func TestPortOnFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := openPort(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.NewWriter(p).Write(record.End{}); err != nil {
		t.Fatal(err)
	}
	if err := record.Drain(p); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(name); !strings.HasSuffix(string(b), "\n") {
		t.Errorf("got %q written", b)
	}
}
