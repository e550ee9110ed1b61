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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
)

// filterRole has what a child of TestFilters and TestUsers does.
const filterRole = "QUARK_FILTER_ROLE"

// playFilterRole is such a child.
func playFilterRole(role string) {
	// What /proc shows takes some time to be read.
	time.Sleep(100 * time.Millisecond)
	switch role {
	case "fail":
		os.Exit(3)
	case "wait":
		time.Sleep(time.Hour)
	case "root", "child": // which end before their children
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
	cmd := exec.Command(path, "-test.run=^Test(Filters|Users)$", "role="+role)
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

// Each filter lets pass what is true of a process, and nothing else.
func TestFilters(t *testing.T) {
	if role := os.Getenv(filterRole); role != "" {
		playFilterRole(role)
	}
	if os.Getuid() != 0 {
		t.Skip("it makes processes of other users: needs root")
	}
	dir := dirForAll(t)
	program := func(name string) string {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.Link("/proc/self/exe", path); err != nil {
			self, err := os.ReadFile("/proc/self/exe")
			if err == nil {
				err = os.WriteFile(path, self, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	plain, deep := program("fplain"), program("deep/er/fdeep")
	id := strings.Repeat("0123456789abcdef", 4)
	group := filepath.Join("/sys/fs/cgroup", "docker-"+id+".scope")
	contained := os.Mkdir(group, 0o755) == nil
	t.Cleanup(func() { os.Remove(group) })
	onEach(t, func(t *testing.T, opts quark.Options) {
		root := filterChild(plain, "root")
		begin, err1 := root.StdinPipe()
		out, err2 := root.StdoutPipe()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if err := root.Start(); err != nil {
			t.Fatal(err)
		}
		filters := map[string][]string{ // and whom they let pass
			"uid == 33":                      {"user"},
			"exit and gid == (44, 45)":       {"user"},
			"exec and comm ~ fde*":           {"deep"},
			"exe ~ '" + dir + "/**/fdeep'":   {"deep"},
			"exe ~ '" + dir + "/*' and exec": {"plain", "user", "killed", "netns", "contained", "child", "grandchild"},
			"argv == 'role=fail'":            {"user"},
			"failed":                         {"user", "killed"},
			"signal == SIGKILL":              {"killed"},
			"exit_code == 3":                 {"user"},
			"container ~ 012345*":            {"contained"},
			"cgroup ~ /**docker-*.scope":     {"contained"},
			"duration >= 100ms":              {"root", "child", "grandchild", "plain", "deep", "user", "netns", "contained", "killed"},
			"duration < 100ms":               nil,
			"tree == ROOT and fork":          {"child", "grandchild"},
			"net_ns != NETNS and exit":       {"netns"},
			"poison 1 if pid == ROOT\npoison 2 on process.exe *deep\npass on poison 1\npass on poison 2\ndrop on any\n": {"root", "child", "grandchild", "deep"},
		}
		var self unix.Stat_t
		if err := unix.Stat("/proc/self/ns/net", &self); err != nil {
			t.Fatal(err)
		}
		replace := strings.NewReplacer("ROOT", strconv.Itoa(root.Process.Pid), "NETNS", strconv.FormatUint(self.Ino, 10))
		var readers sync.WaitGroup
		got := make(map[string]map[int]bool)
		queues := make(map[string]*quark.Queue)
		for source := range filters {
			parse := quark.ParseFilter
			if strings.Contains(source, "\n") {
				parse = quark.ParseRules
			}
			opts := opts
			var err error
			if opts.Where, err = parse(replace.Replace(source)); err != nil {
				t.Fatal(err)
			}
			q, pids := open(t, opts), make(map[int]bool)
			got[source], queues[source] = pids, q
			readers.Add(1)
			go func() {
				defer readers.Done()
				for ev, err := range q.Events(context.Background()) {
					if err != nil {
						t.Error(err)
						return
					}
					pids[int(ev.Process.PID)] = true
				}
			}()
		}
		pids := map[string]int{"root": root.Process.Pid}
		run := func(name, path, role string, adjust func(*syscall.SysProcAttr)) *exec.Cmd {
			cmd := filterChild(path, role)
			cmd.SysProcAttr = new(syscall.SysProcAttr)
			if adjust != nil {
				adjust(cmd.SysProcAttr)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(name, err)
			}
			pids[name] = cmd.Process.Pid
			return cmd
		}
		var cmds []*exec.Cmd
		cmds = append(cmds, run("plain", plain, "end", nil), run("deep", deep, "end", nil))
		cmds = append(cmds, run("user", plain, "fail", func(a *syscall.SysProcAttr) { a.Credential = &syscall.Credential{Uid: 33, Gid: 44} }))
		cmds = append(cmds, run("netns", plain, "end", func(a *syscall.SysProcAttr) { a.Cloneflags = syscall.CLONE_NEWNET }))
		killed := run("killed", plain, "wait", nil)
		if contained {
			if f, err := os.Open(group); err == nil {
				cmd := filterChild(plain, "end")
				cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
				if cmd.Start() == nil {
					pids["contained"] = cmd.Process.Pid
					cmds = append(cmds, cmd)
				}
				f.Close()
			}
		}
		begin.Close()
		lines := bufio.NewScanner(out)
		for _, name := range []string{"child", "grandchild"} {
			if !lines.Scan() {
				t.Fatal("no pid of the ", name)
			}
			pids[name], _ = strconv.Atoi(lines.Text())
		}
		for lines.Scan() { // until the last one has ended
		}
		root.Wait()
		for _, cmd := range cmds {
			cmd.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		killed.Process.Kill()
		killed.Wait()
		exitOf(t, open(t, opts), spawn(t)) // all that was before has come
		for _, q := range queues {
			q.Drain()
		}
		readers.Wait()
		for source, want := range filters {
			s, err := queues[source].Stats()
			if err != nil {
				t.Fatal(err)
			}
			for name, pid := range pids {
				switch wanted := slices.Contains(want, name); {
				case wanted && !got[source][pid]:
					t.Errorf("%s misses %s (%d)", source, name, pid)
				case !wanted && got[source][pid] && (s.Unsure == 0 || opts.Backends != quark.CNProc):
					t.Errorf("%s lets %s (%d) pass; %+v", source, name, pid, s)
				}
			}
			if s.Filtered == 0 {
				t.Errorf("%s left out nothing", source)
			}
		}
	})
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
