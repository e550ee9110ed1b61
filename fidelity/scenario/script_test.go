package scenario

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/fidelity/truth"
)

// ofScripts returns the scenarios of scripts.
func ofScripts(t *testing.T, scripts ...string) (list []Scenario) {
	dir := t.TempDir()
	for i, text := range scripts {
		path := filepath.Join(dir, itoa(i))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		list = append(list, FromFile(path))
	}
	return list
}

// performed runs scripts without a monitor and returns their outcomes. It needs root.
func performed(t *testing.T, scripts ...string) []*Outcome {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	list := ofScripts(t, scripts...)
	r, err := Start(list[0], list[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Wait(60 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each scenario has a function or a readable script, and each script belongs to a scenario.
func TestOwnScripts(t *testing.T) {
	files, err := scripts.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range All() {
		if s.run != nil {
			continue
		}
		text, err := scripts.ReadFile("scripts/" + s.Name + ".script")
		if err == nil {
			_, err = script.Parse(string(text))
		}
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return f.Name() == s.Name+".script" })
	}
	if len(files) > 0 {
		t.Errorf("scripts without a scenario: %v", files)
	}
}

// Generated scripts run on this kernel.
func TestGeneratedScripts(t *testing.T) {
	var scripts []string
	n := 0
	for seed := range uint64(100) {
		s := script.Generate(rand.New(rand.NewPCG(seed, 0)))
		scripts = append(scripts, s.String())
		n += s.Count()
	}
	begin := time.Now()
	for i, o := range performed(t, scripts...) {
		if o.Skip != "" {
			t.Logf("skipped: %s\n%s", o.Skip, scripts[i])
		}
	}
	t.Logf("%d processes in %v", n, time.Since(begin))
}

// The recorded processes show the operations of a script.
func TestScript(t *testing.T) {
	const text = `
process
  fork
    setresuid 1000 0 0
    exec absolute "first argument" second
    thread
      exec memfd x
      comm hello
      exit 4
    sleep 100000
  wait
  clone again
    exec interpreter a b
    fork
      exec missing
      raise TERM
    exit 9
  exit 3
`
	all := performed(t, text)
	var got []string
	for _, l := range all[0].Processes {
		if l.PID == all[0].Director {
			if l.Was == nil || l.Was.Value[engine.FieldArgs] != strings.Join(os.Args, "\x00")+"\x00" {
				t.Errorf("the director was %+v", l.Was)
			}
			continue
		}
		what := ""
		for _, e := range l.Events {
			if !e.Optional {
				what += e.Kind.String() + " "
			}
		}
		end := l.Events[len(l.Events)-1]
		got = append(got, fmt.Sprintf("%s%s %#x", what, end.State.Value[engine.FieldUIDs], end.Status))
	}
	want := []string{
		"FORK EXIT 0 0 0x300", "FORK ID_CHANGE EXEC EXEC SETPROCTITLE EXIT 1000 0 0x400", "FORK EXEC EXIT 0 0 0x900",
		"FORK EXIT 0 0 0xf",
	}
	if !slices.Equal(got, want) || all[0].Processes[2].PID != all[0].Processes[3].PID {
		t.Errorf("got %q, want %q", got, want)
	}
}

// If a process can't get its own mount namespace, but may mount, a script leaves the shared mounts
// unchanged.
func TestBindFails(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	mounts := func() string {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := mounts()
	list := ofScripts(t, "process\n  bind a\n  exec absolute\n  exit 3\n")
	var all []*Outcome
	done := make(chan error)
	go func() {
		// The filter applies to this thread, which ends with the function, and its
		// children.
		runtime.LockOSThread()
		err := failCall(unix.SYS_UNSHARE)
		if err == nil {
			var r *Running
			if r, err = Start(list[0]); err == nil {
				all, err = r.Wait(20 * time.Second)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	end := all[0].Processes[1].Events
	if last := end[len(end)-1]; last.Status != 3<<8 || all[0].Skip != "" {
		t.Errorf("got wait status %#x, skip %q, want 0x300 and no skip", last.Status, all[0].Skip)
	}
	if after := mounts(); after != before {
		t.Errorf("got mounts\n%s\nwant\n%s", after, before)
	}
}

// failCall makes a system call of this thread fail.
func failCall(number uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSPC)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("install seccomp filter: %w", errno)
	}
	return nil
}

// The final state shows the effects of operations, including those that the kernel could reject.
func TestOperations(t *testing.T) {
	type fields map[engine.Field]string
	list := []struct {
		script string
		status int32
		want   fields
	}{
		{"exec-broken", 11, fields{engine.FieldComm: "p0broken", engine.FieldArgs: "broken\x00"}},
		{"chroot\n  exec interpreter x", 0, fields{
			engine.FieldExe: "/p0program1", engine.FieldCwd: "/p0", engine.FieldArgs: "/p0program1\x00-s\x00/p0program1.script\x00",
		}},
		{"clone pid\n    setsid\n    raise TERM", 0, fields{}}, // ignored
		{"clone user signal\n    exec absolute\n    setresuid 1 1 1", 0, fields{engine.FieldParentSignal: "17"}},
		{"clone memory signal\n    comm x", 0, fields{engine.FieldParentSignal: "23", engine.FieldComm: "x"}},
		{"fork\n    clone signal parent\n      clone signal", 0, fields{engine.FieldParentSignal: "23"}},
		{"chdir c\n  chroot", 0, fields{engine.FieldCwd: "/p0"}},
		{"title \"a b\"", 0, fields{engine.FieldArgs: "title\x00"}},
	}
	var scripts []string
	for _, c := range list {
		scripts = append(scripts, "process\n  "+c.script+"\n")
	}
	outcomes := performed(t, scripts...)
	for i, c := range list {
		own := outcomes[i].Processes[len(outcomes[i].Processes)-1]
		end := own.Events[len(own.Events)-1]
		if end.Status&^0x80 != c.status {
			t.Errorf("%s: got wait status %#x, want %#x", c.script, end.Status, c.status)
		}
		for f, want := range c.want {
			if got := end.State.Value[f]; got != want {
				t.Errorf("%s: %s: got %q, want %q", c.script, f, got, want)
			}
		}
		if c.script[:5] == "title" && !slices.ContainsFunc(own.Events[len(own.Events)-2].Snapshots, func(l truth.Snapshot) bool {
			return l.State.Value[engine.FieldArgs] == "a b\x00"
		}) {
			t.Errorf("the changed arguments were not recorded")
		}
		if c.script == "chdir c\n  chroot" && !slices.ContainsFunc(own.Events[len(own.Events)-2].Snapshots, func(l truth.Snapshot) bool {
			return l.State.Value[engine.FieldCwd] == "/p0/dir1/c"
		}) {
			t.Errorf("the directory in the new root is not recorded")
		}
	}
}
