package procfs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
)

const statusText = "Name:\tsh\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t0 1 \nCapInh:\t0000000000000001\n" +
	"CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000002\nCapBnd:\t0000000000000003\nCapAmb:\t0000000000000004\nNoNewPrivs:\t1\nSeccomp:\t3\n"

func TestParseStatus(t *testing.T) {
	all := engine.FieldsIDs | engine.SetOf(engine.FieldCaps, engine.FieldNoNewPrivs, engine.FieldSeccomp)
	uids := engine.FieldUIDs.Set() | engine.FieldSUID.Set()
	var got engine.Task
	parseStatus([]byte(statusText), 4711, engine.AllFields, &got)
	want := engine.Task{Known: all}
	want.Cred = engine.Credentials{UID: 1, EUID: 2, SUID: 3, GID: 5, EGID: 6, SGID: 7}
	want.Caps = engine.Capabilities{Inheritable: 1, Permitted: 0x1ffffffffff, Effective: 2, Bounding: 3, Ambient: 4}
	want.NoNewPrivs, want.Seccomp = 1, 2
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var some engine.Task
	if parseStatus([]byte(statusText), 4711, uids, &some); some != (engine.Task{Known: uids, Inherited: engine.Inherited{Cred: engine.Credentials{UID: 1, EUID: 2, SUID: 3}}}) {
		t.Errorf("want only %v, got %+v", uids, some)
	}
	for _, c := range []struct {
		name, text string
		want       engine.Fields
	}{
		{"empty", "", 0},
		{"cut in a number", "Uid:\t1\t2\t3\t4\nGid:\t5\t", uids},
		{"overflow", "Uid:\t4294967296\t2\t3\t4\n", 0},
		{"four capability sets", statusText[:len(statusText)-len("CapAmb:\t0000000000000004\nNoNewPrivs:\t1\nSeccomp:\t3\n")], engine.FieldsIDs},
		{"capability set too long", "CapInh:\t00000000000000001f\nCapPrm:\t10000000000000000\n", 0},
		{"name that looks like a line", "Name:\tx\\nUid:\t0\t0\t0\n", 0},
	} {
		var task engine.Task
		if parseStatus([]byte(c.text), 4711, engine.AllFields, &task); task.Known != c.want {
			t.Errorf("%s: got known %v, want %v", c.name, task.Known, c.want)
		}
	}
	for _, c := range []struct {
		text  string
		want  engine.Task
		below bool
	}{
		{"NSpid:\t4711\n", engine.Task{Known: engine.FieldPIDNS.Set(), NSPID: 4711, Inherited: engine.Inherited{NS: engine.Namespaces{PID: 0xeffffffc}}}, false},
		{"NSpid:\t4711\t12\t1\n", engine.Task{NSPID: 1}, true},
		{"NSpid:\t0\n", engine.Task{}, false}, // the process is being reaped
		{"NSpid:\t0\t0\n", engine.Task{}, false},
		{"NSpid:\t4711\tx\n", engine.Task{}, false},
		// Another thread has replaced the leader.
		{"Uid:\t0\t0\t0\t0\nNSpid:\t4712\n", engine.Task{}, false},
	} {
		var got engine.Task
		if below := parseStatus([]byte(c.text), 4711, engine.AllFields, &got); got != c.want || below != c.below {
			t.Errorf("%q: got %+v, below %v", c.text, got, below)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusText))
	f.Fuzz(func(t *testing.T, b []byte) {
		task := engine.Task{Known: engine.FieldPPID.Set()}
		parseStatus(b, 4711, engine.AllFields, &task)
		if found := task.Known &^ engine.FieldPPID.Set(); found&^fieldsStatus != 0 || !task.Known.Has(engine.FieldPPID) {
			t.Errorf("got found %v, known %v", found, task.Known)
		}
	})
}

func FuzzAppendNumbers(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0412\x00\x00\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0412\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(appendNumbers(nil, b)); n > len(b)/20 {
			t.Errorf("got %d numbers from %d bytes", n, len(b))
		}
	})
}
