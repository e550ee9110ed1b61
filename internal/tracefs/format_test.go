package tracefs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const setsid = `name: sys_exit_setsid
ID: 210
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:long ret;	offset:16;	size:8;	signed:1;

print fmt: "0x%lx", REC->ret
`

func TestParseFormat(t *testing.T) {
	got, err := ParseFormat([]byte(setsid))
	if err != nil {
		t.Fatal(err)
	}
	want := &Event{Name: "sys_exit_setsid", ID: 210, Fields: []Field{
		{"common_type", 0, 2}, {"common_pid", 4, 4}, {"__syscall_nr", 8, 4}, {"ret", 16, 8},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if f, ok := got.Field("ret"); !ok || f.Offset != 16 {
		t.Errorf("field ret: got %v, ok %v", f, ok)
	}
}

func TestParseField(t *testing.T) {
	for _, tc := range []struct {
		line string
		want Field
		ok   bool
	}{
		{"field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;", Field{"filename", 8, 4}, true},
		{"field:char comm[16];	offset:8;	size:16;	signed:0;", Field{"comm", 8, 16}, true},
		{"field:const char *name;	offset:8;	size:8;	signed:0;", Field{"name", 8, 8}, true},
		{"field:long ret;	offset:;	size:8;", Field{}, false},
		{"field:long ret;	offset:-1;	size:8;", Field{}, false},
		{"field:long ret;	offset:99999999999999999999;	size:8;", Field{}, false},
		{"field:;	offset:0;	size:8;", Field{}, false},
	} {
		got, err := parseField(tc.line)
		if (err == nil) != tc.ok || tc.ok && got != tc.want {
			t.Errorf("%q: got %v, error %v", tc.line, got, err)
		}
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add([]byte(setsid))
	f.Add([]byte("ID: 1\nfield:"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseFormat(b)
		if err != nil {
			return
		}
		for _, fd := range e.Fields {
			if fd.Offset < 0 || fd.Size < 0 {
				t.Errorf("got negative numbers: %v", fd)
			}
		}
	})
}
