package tracepoint

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/internal/tracefs"
)

// formats are those of Linux 6.18, without the fields that all events have.
var formats = [numHooks]string{
	newTask: `	field:pid_t pid;	offset:8;	size:4;	signed:1;
	field:char comm[16];	offset:12;	size:16;	signed:0;
	field:u64 clone_flags;	offset:32;	size:8;	signed:0;
	field:short oom_score_adj;	offset:40;	size:2;	signed:1;
`,
	executed: `	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:pid_t pid;	offset:12;	size:4;	signed:1;
	field:pid_t old_pid;	offset:16;	size:4;	signed:1;
`,
	ended: `	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:int prio;	offset:28;	size:4;	signed:1;
	field:bool group_dead;	offset:32;	size:1;	signed:0;
`,
	execEnds: `	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:long ret;	offset:16;	size:8;	signed:1;
`,
	execAtEnds: `	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:long ret;	offset:16;	size:8;	signed:1;
`,
}

// layoutOf returns the layout by a format's text, with what replaced in it.
func layoutOf(t testing.TB, w what, replace ...string) (*layout, error) {
	t.Helper()
	text := fmt.Sprintf("name: %s\nID: %d\nformat:\n%s", hooks[w].name, 300+int(w), formats[w])
	event, err := tracefs.ParseFormat([]byte(strings.NewReplacer(replace...).Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	return newLayout(w, event)
}

func TestLayout(t *testing.T) {
	for w := range numHooks {
		if _, err := layoutOf(t, w); err != nil {
			t.Error(err)
		}
	}
	if l, err := layoutOf(t, ended, "	field:bool group_dead;	offset:32;	size:1;	signed:0;\n", ""); err != nil || l.dead.size != 0 {
		t.Errorf("without group_dead: %v, %v", l, err)
	}
	if l, err := layoutOf(t, ended, "char comm[16];	offset:8;	size:16", "__data_loc char[] comm;	offset:8;	size:4"); err != nil || l.text.size != sizeDynamic {
		t.Errorf("with a name elsewhere: %v, %v", l, err)
	}
	for _, c := range []struct {
		what     what
		old, new string
	}{
		{newTask, "pid_t pid", "pid_t tid"},
		{newTask, "size:8", "size:4"},
		{newTask, "offset:32", "offset:250"},
		{newTask, "offset:8;", "offset:4;"},
		{executed, "size:4;	signed:0", "size:8;	signed:0"},
		{ended, "size:1;", "size:2;"},
		{ended, "ID: 302", "ID: 65536"},
		{execEnds, "long ret", "long result"},
	} {
		if l, err := layoutOf(t, c.what, c.old, c.new); err == nil {
			t.Errorf("%s for %s is understood: %+v", c.new, c.old, l)
		}
	}
}

// raw makes a record: numbers of four bytes at their offsets, and a text.
func raw(size int, numbers map[int]uint64, text map[int]string) []byte {
	b := make([]byte, size)
	for at, n := range numbers {
		if n > 1<<32-1 {
			binary.NativeEndian.PutUint64(b[at:], n)
		} else {
			binary.NativeEndian.PutUint32(b[at:], uint32(n))
		}
	}
	for at, s := range text {
		copy(b[at:], s)
	}
	return b
}

func TestDecode(t *testing.T) {
	const at20 = 20 | 10<<16 // 10 bytes at 20
	failed := -int64(2)
	for _, c := range []struct {
		what what
		raw  []byte
		want record
		ok   bool
	}{
		{newTask, raw(44, map[int]uint64{8: 12, 32: cloneThread}, map[int]string{12: "sh"}), record{task: 12, flags: cloneThread, text: []byte("sh")}, true},
		{newTask, raw(39, map[int]uint64{8: 12}, map[int]string{12: "sh"}), record{}, false},
		// A name without a NUL, and a path that is cut off.
		{newTask, raw(44, nil, map[int]string{12: "sixteen letters!"}), record{}, false},
		{executed, raw(32, map[int]uint64{8: at20, 12: 3, 16: 4}, map[int]string{20: "/bin/true"}), record{task: 3, old: 4, text: []byte("/bin/true")}, true},
		{executed, raw(29, map[int]uint64{8: at20}, map[int]string{20: "/bin/true"}), record{}, false},
		{ended, raw(33, map[int]uint64{24: 5}, map[int]string{8: "a", 32: "\x01"}), record{task: 5, dead: true, text: []byte("a")}, true},
		{ended, raw(33, map[int]uint64{24: 5}, map[int]string{8: "a"}), record{task: 5, text: []byte("a")}, true},
		{execEnds, raw(24, map[int]uint64{16: uint64(failed)}, nil), record{errno: 2}, true},
		// The kernel makes the call again.
		{execAtEnds, raw(24, map[int]uint64{16: uint64(failed - 510)}, nil), record{}, true},
	} {
		l, err := layoutOf(t, c.what)
		if err != nil {
			t.Fatal(err)
		}
		var got record
		ok := l.decode(&perf.Sample{PID: 1, TID: 2, Time: 3, CPU: 4, Raw: c.raw}, &got)
		c.want.what, c.want.pid, c.want.tid, c.want.time, c.want.cpu = c.what, 1, 2, 3, 4
		if ok != c.ok || ok && fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v; want %+v", hooks[c.what].name, got, ok, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(uint8(newTask), raw(44, map[int]uint64{8: 12}, map[int]string{12: "sh"}))
	f.Add(uint8(executed), raw(32, map[int]uint64{8: 20 | 10<<16}, map[int]string{20: "/bin/true"}))
	f.Add(uint8(ended), raw(33, nil, map[int]string{32: "\x01"}))
	f.Add(uint8(execEnds), make([]byte, 24))
	f.Fuzz(func(t *testing.T, w uint8, b []byte) {
		l, err := layoutOf(t, what(w)%numHooks)
		if err != nil {
			t.Fatal(err)
		}
		var r record
		if l.decode(&perf.Sample{Raw: b}, &r) && len(r.text) > len(b) {
			t.Error("more than there is")
		}
	})
}
