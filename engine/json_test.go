package engine_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/golden"
)

var wall = engine.NewClock(nil, engine.Host{}, engine.Offset{Wall: time.Unix(1000, 0)})

func full() *engine.Process {
	p := &engine.Process{PID: 7, Comm: "true", Cwd: "/", Cgroup: "/a", Image: engine.Image{Exe: "/bin/true", Args: []byte("true\x00a b\x00"), Environ: []byte("A=b\x00C=\x00")}, Exited: true}
	p.Known = engine.AllFields &^ engine.FieldsUsage
	p.Start, p.StartUnit, p.PPID = 5e9, 1, 1
	p.Caps.Effective = 1<<41 - 1
	p.ParentSignal, p.ParentTID, p.Login = 17, 2, engine.Login{UID: 1000, Session: 3}
	p.ExecPath = "true"
	p.ExeFile = engine.ExeFile{Inode: 1 << 63, Ctime: 2e9 + 3, Device: 254<<8 | 1, UID: 4, GID: 5, Mode: 0o104755, Removed: true}
	p.Stdio = [3]engine.Stream{{Inode: 8, Device: 9, Family: 2, Type: engine.StreamSocket}, {Type: engine.StreamClosed}, {Inode: 3, Device: 6, Type: engine.StreamNull}}
	p.NSPID, p.NS.PID, p.NS.User, p.NS.Cgroup, p.NS.Time = 3, 4, 5, 6, 7
	p.Birth = engine.Birth{Parent: engine.Identity{PID: 1}, Known: engine.FieldPPID.Set()}
	p.Task.Exit = engine.Exit{WaitStatus: 0x8b, Time: 6e9}
	return p
}

func TestJSON(t *testing.T) {
	ev := &engine.Event{Events: engine.EventFork | engine.EventExit, Time: 5e9, Wall: wall.At(5e9), CPU: 3, Process: full()}
	ev.Process.TTY = engine.TTY{Major: 136, Minor: 2}
	ev.Process.Cached, ev.Process.Truncated = engine.SetOf(engine.FieldExe, engine.FieldCwd), engine.SetOf(engine.FieldArgs)
	golden.Compare(t, "testdata/event.json", append(ev.AppendJSON(nil, wall, "ebpf"), '\n'))
}

func TestJSONOmitsWhatIsUnknown(t *testing.T) {
	p := full()
	p.Known, p.Birth = 0, engine.Birth{}
	if got := string(p.AppendJSON(nil, wall)); got != `{"pid":7,"exited":true}` {
		t.Errorf("got %s", got)
	}
}

// FuzzJSON checks that any bytes give valid JSON, and that decoding returns the bytes.
func FuzzJSON(f *testing.F) {
	f.Add("plain", "a\x00b\x00")
	f.Add("\xff\xfe", "\x00\x00\xc3\x28\x00")
	f.Add("\"\\\n\t\x01\x7f\u2028é", "\x80")
	f.Fuzz(func(t *testing.T, name, cmdline string) {
		p := full()
		p.Image.Exe, p.Image.Args = name, []byte(cmdline)
		var got struct {
			Exe     string   `json:"exe"`
			ExeB64  *string  `json:"exe_b64"`
			Args    []string `json:"args"`
			ArgsB64 []string `json:"args_b64"`
		}
		if err := json.Unmarshal(p.AppendJSON(nil, wall), &got); err != nil {
			t.Fatal(err)
		}
		if got.ExeB64 != nil {
			raw, err := base64.StdEncoding.DecodeString(*got.ExeB64)
			if err != nil {
				t.Fatal(err)
			}
			got.Exe = string(raw)
		}
		if got.Exe != name {
			t.Errorf("filename %q was decoded as %q", name, got.Exe)
		}
		args := got.Args
		for i, a := range got.ArgsB64 {
			raw, err := base64.StdEncoding.DecodeString(a)
			if err != nil {
				t.Fatal(err)
			}
			args[i] = string(raw)
		}
		back := strings.Join(args, "\x00")
		if strings.TrimSuffix(cmdline, "\x00") != back && cmdline != back {
			t.Errorf("cmdline %q was decoded as %q", cmdline, back)
		}
	})
}

// The container is printed after the cgroup that it is derived from, if the cgroup is not
// truncated.
func TestContainer(t *testing.T) {
	id := strings.Repeat("0a", 32)
	p := full()
	p.Cgroup = "/user.slice/user-1.slice/user@1.service/user.slice/libpod-" + id + ".scope/container"
	if c, known := p.Container(); !known || c.ID != id || c.Inside != "/container" {
		t.Errorf("got %+v, %v", c, known)
	}
	object, text := `,"container_id":"`+id+`","container_runtime":"podman","container_unit":"user@1.service",`, "\n  CONT\tcontainer_id="+id+" container_runtime=podman container_unit=user@1.service\n"
	if got := string(p.AppendJSON(nil, new(engine.Clock))); !strings.Contains(got, object) {
		t.Error(got)
	}
	if got := string(p.AppendDump(nil)); !strings.Contains(got, text) {
		t.Error(got)
	}
	p.Truncated = engine.FieldCgroup.Set()
	if c, known := p.Container(); known || c.ID != "" || strings.Contains(string(p.AppendJSON(nil, new(engine.Clock))), id+`"`) {
		t.Errorf("truncated cgroup: got container %+v, known %v, want unknown", c, known)
	}
	p.Truncated, p.Known = 0, p.Known&^engine.FieldCgroup.Set()
	if c, known := p.Container(); known || c.ID != "" {
		t.Errorf("unknown cgroup: got container %+v, known %v, want unknown", c, known)
	}
}

func TestDump(t *testing.T) {
	ev := &engine.Event{Events: engine.EventFork | engine.EventExit, Process: full()}
	ev.Process.Known &^= engine.FieldCwd.Set()
	ev.Process.Truncated = engine.FieldArgs.Set()
	golden.Compare(t, "testdata/event.txt", ev.AppendDump(nil))
	if got := string((&engine.Event{CPU: engine.AllCPUs}).AppendDump(nil)); got != "->0\n" {
		t.Errorf("empty event: got %q", got)
	}
}

// shortLife returns the joined event of a short process, as with eBPF.
func shortLife() (*engine.Event, *engine.Clock) {
	clock := wall
	clock.Host.BootID = "5f2fbd4c-28a6-4a4c-8b0b-3a1f7f3c2a11"
	p := full()
	p.Known &^= engine.FieldEnviron.Set() | engine.FieldPrivileges.Set()
	p.Birth.Known = engine.FieldPPID.Set().With(engine.FieldStart)
	p.Cgroup = "/system.slice/cron.service"
	p.Cached = engine.FieldCwd.Set().With(engine.FieldCgroup)
	kinds := engine.EventFork | engine.EventExec | engine.EventExit
	return &engine.Event{Events: kinds, Time: 5e9, Wall: wall.At(5e9), CPU: 1, Process: p}, clock
}

func TestJSONAllocatesNothing(t *testing.T) {
	ev, clock := shortLife()
	line := ev.AppendJSON(nil, clock, "ebpf")
	if n := testing.AllocsPerRun(100, func() { line = ev.AppendJSON(line[:0], clock, "ebpf") }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func BenchmarkJSON(b *testing.B) {
	ev, clock := shortLife()
	line := ev.AppendJSON(nil, clock, "ebpf")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		line = ev.AppendJSON(line[:0], clock, "ebpf")
	}
}
