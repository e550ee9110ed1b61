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

	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/tracefs"
)

// ownMounts is set in the environment of a test with its own mount namespace.
const ownMounts = "QUARK_TEST_OWN_MOUNTS"

// Kernel objects that a monitor leaves are removed at its end and reported. Earlier ones, and those
// of other processes, stay. The BPF file system is private, so that monitors of other tests do not
// see it.
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
		t.Logf("%s", out)
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
		path := filepath.Join("/sys/fs/bpf", name)
		if err := m.Pin(path); err != nil {
			t.Skip(err)
		}
		return path
	}
	program := fake("") // the guest image has no sleep(1)
	program.Programs, program.Environment = []string{os.Args[0]}, []string{ticking + "=1"}
	group := new(Group)
	run := func() *Run {
		r, err := program.Start(Options{Group: group})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	stays := map[string]bool{pin("before"): true}
	traced := newTraces(t)
	stays[traced.make(t, fmt.Sprintf("before_%d", os.Getpid()))] = true // its owner is alive

	first, second := run(), run()
	pinned := pin("after")
	if err := os.Mkdir(filepath.Join(pinDir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	below := pin("directory/below")
	want := []string{
		"left behind, and removed: eBPF object " + below + ", " + pinned,
		"left behind, and removed: directory of eBPF objects " + filepath.Dir(below),
	}
	if rule := addRule(t); rule != "" {
		want = append(want, "left behind, and removed: audit rule "+rule)
	}
	others := traced.make(t, fmt.Sprintf("others_%d", os.Getpid()))
	stays[others] = true
	for _, what := range traced.leave(t) {
		want = append(want, "left behind, and removed: "+what)
	}
	// The second monitor still runs, so it may own the objects.
	if _, notes := first.Stop(); len(notes) > 0 {
		t.Errorf("%q while another monitor runs", notes)
	}
	_, notes := second.Stop()
	slices.Sort(notes)
	slices.Sort(want)
	if !slices.Equal(notes, want) {
		t.Errorf("%q, not %q", notes, want)
	}
	for _, l := range findLeftovers() {
		delete(stays, l.name)
		if strings.Contains(strings.Join(want, "\n"), l.name) {
			t.Errorf("%s %s is still there", l.what, l.name)
		}
	}
	delete(stays, "")
	for name := range stays {
		t.Errorf("%s was removed", name)
	}
}

// probes are a test's probes and instances in tracefs.
type probes struct {
	dir, file string
	kernel    bool // the kernel has kprobes
}

// newTraces returns nil if there is no tracefs.
func newTraces(t *testing.T) *probes {
	p := &probes{dir: "/sys/kernel/tracing", file: filepath.Join(t.TempDir(), "probed")}
	if _, err := os.Stat(p.dir + "/uprobe_events"); err != nil {
		if err := unix.Mount("nodev", p.dir, "tracefs", 0, ""); err != nil {
			t.Log(err)
			return nil
		}
	}
	if _, err := os.Stat(p.dir + "/uprobe_events"); err != nil {
		t.Log(err)
		return nil
	}
	if err := os.WriteFile(p.file, make([]byte, 8192), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(p.dir + "/kprobe_events")
	p.kernel = err == nil
	return p
}

func (p *probes) write(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(p.dir, file), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// make makes a probe that the test removes, and returns its name.
func (p *probes) make(t *testing.T, name string) string {
	if p == nil {
		return ""
	}
	name = "quarktest/" + name
	p.write(t, "uprobe_events", "p:"+name+" "+p.file+":0x10\n")
	t.Cleanup(func() { p.write(t, "uprobe_events", "-:"+name+"\n") })
	return name
}

// leave creates objects to be removed, and returns their names.
func (p *probes) leave(t *testing.T) (names []string) {
	if p == nil {
		return nil
	}
	name := "left"
	for _, digit := range fmt.Sprint(os.Getpid()) { // not a number, which would mean an owner
		name += string('a' + digit - '0')
	}
	t.Cleanup(func() { // after a failure
		os.Remove(filepath.Join(p.dir, "instances", name))
		if fs, err := tracefs.Open(); err == nil {
			fs.RemoveProbe("uprobe_events", "quarktest/"+name)
			fs.RemoveProbe("kprobe_events", "quarktestkernel/"+name)
			fs.Close()
		}
	})
	probe := "quarktest/" + name
	p.write(t, "uprobe_events", "p:"+probe+" "+p.file+":0x20\n")
	p.write(t, "events/"+probe+"/enable", "1")
	if err := os.Mkdir(filepath.Join(p.dir, "instances", name), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(t, "instances/"+name+"/events/"+probe+"/enable", "1")
	names = append(names, "tracing instance "+name, "probe of a program "+probe)
	if p.kernel {
		probe := "quarktestkernel/" + name
		t.Log("with a probe of the kernel")
		p.write(t, "kprobe_events", "p:"+probe+" do_exit\n")
		p.write(t, "events/"+probe+"/enable", "1")
		names = append(names, "probe of the kernel "+probe)
	}
	return names
}

// addRule adds an audit rule that never makes a record, and returns its name, or "" on a host,
// which may have rules of its own.
func addRule(t *testing.T) string {
	if !scenario.InGuest() {
		return ""
	}
	c, err := auditrule.Open()
	if err != nil {
		t.Log(err)
		return ""
	}
	defer c.Close()
	r := auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Never, Fields: []auditrule.Field{{Field: auditrule.FieldKey, Text: "left"}}}
	r.Select(unix.SYS_ACCT)
	if err := c.Add(r.Bytes()); err != nil {
		t.Log(err)
		return ""
	}
	rules, err := c.Rules()
	t.Log("with an audit rule")
	if err != nil || len(rules) == 0 {
		t.Fatal(rules, err)
	}
	return ruleName(rules[len(rules)-1])
}

func TestHasOwner(t *testing.T) {
	for name, want := range map[string]bool{
		fmt.Sprintf("kprobes/p_do_exit_bcc_%d", os.Getpid()): true, fmt.Sprintf("x_%d0", 1<<22): false, "x": false, "pid_1": false,
	} {
		if hasOwner(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
