//go:build linux && (amd64 || arm64)

package quark_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark"
)

// filterRole has what a child of TestUsers does.
const filterRole = "QUARK_FILTER_ROLE"

// playFilterRole is such a child.
func playFilterRole(role string) {
	// What /proc shows takes some time to be read.
	time.Sleep(100 * time.Millisecond)
	if role == "root" || role == "child" { // which end before their children
		if role == "root" {
			io.Copy(io.Discard, os.Stdin) // until it may begin
		}
		next := map[string]string{"root": "child", "child": "end"}[role]
		cmd := filterChild(os.Args[0], next)
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		fmt.Println(cmd.Process.Pid)
	}
	os.Exit(0)
}

func filterChild(path, role string) *exec.Cmd {
	cmd := exec.Command(path, "-test.run=^TestUsers$", "role="+role)
	cmd.Env = append(os.Environ(), filterRole+"="+role)
	return cmd
}

// dirForAll returns an empty directory that every user may use.
func dirForAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// With Users the kernel reports the processes of these users from their birth or from the event
// that makes them so, those that exist already, and each to its end.
func TestUsers(t *testing.T) {
	if role := os.Getenv(filterRole); role != "" {
		playFilterRole(role)
	}
	opts := quark.Options{Backends: quark.EBPF, Strict: true, HoldTime: 50 * time.Millisecond, Matrix: new(quark.Matrix)}
	if err := tryBackend(opts); err != nil {
		t.Skip(err)
	}
	dir := dirForAll(t)
	program := filepath.Join(dir, "program")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := filterChild(program, "root")
	begin, err := before.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	of := func(uid uint32) *quark.Queue {
		opts := opts
		opts.Users = []uint32{uid, 12345}
		return open(t, opts)
	}
	queues := map[string]*quark.Queue{"root's": of(0), "the user's": of(33)}
	pids := map[string]uint32{"an old process": uint32(before.Process.Pid)}
	run := func(name, role string, uid uint32) {
		cmd := filterChild(program, role)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if uid != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids[name] = uint32(cmd.Process.Pid)
		for lines := bufio.NewScanner(out); lines.Scan(); { // until the child has ended
			if pid, err := strconv.Atoi(lines.Text()); err == nil {
				pids[name+"'s child"] = uint32(pid)
			}
		}
		cmd.Wait()
	}
	run("root", "child", 0)
	run("user", "child", 33)
	begin.Close()
	before.Wait()
	time.Sleep(500 * time.Millisecond) // the descendants of before, which belong to root
	exitOf(t, open(t, opts), spawn(t)) // all that was before has come
	const all = "FORK EXEC EXIT"
	want := map[string]map[string]string{
		"root's":     {"root": all, "root's child": all, "an old process": "EXIT", "user": "FORK ID_CHANGE EXEC EXIT", "user's child": ""},
		"the user's": {"root": "", "root's child": "", "an old process": "EXIT", "user": "ID_CHANGE EXEC EXIT", "user's child": all},
	}
	for name, q := range queues {
		if err := q.Drain(); err != nil {
			t.Fatal(err)
		}
		got := make(map[uint32][]string)
		for ev, err := range q.Events(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			if seen := got[ev.Process.PID]; ev.Events != quark.EventSetProcTitle && (len(seen) == 0 || seen[len(seen)-1] != ev.Events.String()) {
				got[ev.Process.PID] = append(seen, ev.Events.String())
			}
		}
		for process, kinds := range want[name] {
			if have := strings.Join(got[pids[process]], " "); have != kinds {
				t.Errorf("of %s %s queue has %q, and not %q", process, name, have, kinds)
			}
			if p := q.Lookup(pids[process]); (p != nil) != (kinds != "") {
				t.Errorf("of %s %s queue has %+v in its table", process, name, p)
			}
		}
		if s, err := q.Stats(); err != nil || s.Lost() != 0 {
			t.Errorf("%s queue: %+v, %v", name, s, err)
		}
	}
}
