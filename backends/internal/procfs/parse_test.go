package procfs

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
)

const statTail = " 1 2 3 34817 4 1077936192 0 0 0 0 0 0 0 0 20 0 7 0 12345 0 0 0 4096 0 1 0 0"

func TestParseStat(t *testing.T) {
	want := stat{
		state: 'S', ppid: 1, pgid: 2, sid: 3, tty: engine.TTY{Major: 136, Minor: 1},
		flags: 1077936192, threads: 7, start: 12345 * engine.ProcStartUnit, memory: 4096 ^ 1<<32,
	}
	for _, c := range []struct{ name, text, comm string }{
		{"plain", "10 (sh) S" + statTail, "sh"},
		{"empty comm", "10 () S" + statTail, ""},
		{"parenthesis", "10 (a) S 1) S" + statTail, "a) S 1"},
		{"open only", "10 (((() S" + statTail, "((("},
		{"newline and blank", "10 (a\n b ) S" + statTail + "\n", "a\n b "},
		{"not UTF-8", "10 (\xff\x00) S" + statTail, "\xff\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := want
			want.comm = []byte(c.comm)
			got, ok := parseStat([]byte(c.text))
			if !ok {
				t.Fatal("refused")
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(stat{})); d != "" {
				t.Error(d)
			}
		})
	}
	for _, bad := range []string{
		"", "10", "10 (", "10 (sh)", "10 (sh) ", "10 (sh) S", "10 (sh) S 1 2 3", ") 10 (sh",
		"10 (sh) S -1 2 3 34817 4 0 0 0 0 0 0 0 0 0 20 0 7 0 12345 0 0 0 4096 0 1",
		"10 (sh) S 1 2 3 34817 4 99999999999 0 0 0 0 0 0 0 0 20 0 7 0 12345 0 0 0 4096 0 1",
		"10 (sh) S 1 2 3 34817 4 0 0 0 0 0 0 0 0 0 20 0 7 0 18446744073709551615 0 0 0 4096 0 1",
		"10 (sh) S 1 2 3 34817 4 0 0 0 0 0 0 0 0 0 20 0 7 0 x 0 0 0 4096 0 1",
		"10 (sh) S 1 2 3 34817 4 0 0 0 0 0 0 0 0 0 20 0 7 0 12345 0 0 0 4096 0 -1",
	} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestParseTTY(t *testing.T) {
	for _, c := range []struct {
		dev  string
		want engine.TTY
	}{
		{"0", engine.TTY{}},
		{"1025", engine.TTY{Major: 4, Minor: 1}},
		{"-2147418367", engine.TTY{Major: 255, Minor: 0x80001}},
	} {
		b := bytes.Replace([]byte("1 (a) S"+statTail), []byte("34817"), []byte(c.dev), 1)
		got, ok := parseStat(b)
		if want := c.want; !ok || got.tty != want {
			t.Errorf("%s: %v, %v; want %v", c.dev, got.tty, ok, want)
		}
	}
}

const statusText = "Name:\tsh\nUmask:\t0022\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t0 1 \nCapInh:\t0000000000000001\n" +
	"CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000002\nCapBnd:\t0000000000000003\nCapAmb:\t0000000000000004\nSeccomp:\t0\n"

func TestParseStatus(t *testing.T) {
	all := engine.FieldsIDs | engine.FieldCaps.Set()
	uids := engine.FieldUIDs.Set() | engine.FieldSUID.Set()
	var got engine.Task
	if f := parseStatus([]byte(statusText), &got); f != all {
		t.Errorf("found %v", f)
	}
	want := engine.Task{
		Cred: engine.Credentials{UID: 1, EUID: 2, SUID: 3, GID: 5, EGID: 6, SGID: 7},
		Caps: engine.Capabilities{Inheritable: 1, Permitted: 0x1ffffffffff, Effective: 2, Bounding: 3, Ambient: 4},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		name, text string
		want       engine.Fields
	}{
		{"empty", "", 0},
		{"cut in a number", "Uid:\t1\t2\t3\t4\nGid:\t5\t", uids},
		{"overflow", "Uid:\t4294967296\t2\t3\t4\n", 0},
		{"four capability sets", statusText[:len(statusText)-len("CapAmb:\t0000000000000004\nSeccomp:\t0\n")], engine.FieldsIDs},
		{"capability set too long", "CapInh:\t00000000000000001f\nCapPrm:\t10000000000000000\n", 0},
		{"name that looks like a line", "Name:\tx\\nUid:\t0\t0\t0\n", 0},
	} {
		var task engine.Task
		if f := parseStatus([]byte(c.text), &task); f != c.want {
			t.Errorf("%s: found %v, want %v", c.name, f, c.want)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		ok               bool
	}{
		{"v2", "0::/user.slice/a:b\n", "/user.slice/a:b", true},
		{"v2 root", "0::/\n", "/", true},
		{"hybrid", "12:pids:/x\n1:name=systemd:/y\n0::/z\n", "/z", true},
		{"v1", "12:cpu,cpuacct:/c\n7:cpuset,pids:/x\n1:name=systemd:/y\n", "/x", true},
		{"not pids", "7:spids,pidsx:/x\n", "", false},
		{"no path", "0::\n", "", false},
		{"garbage", "\n:\n::\n0:\n", "", false},
		{"empty", "", "", false},
	} {
		got, ok := parseCgroup([]byte(c.text))
		if string(got) != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestParseNS(t *testing.T) {
	for text, want := range map[string]uint32{"mnt:[4026531841]": 4026531841, "uts:[0]": 0} {
		if got, ok := parseNS([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", "mnt:[", "mnt:[]", "mnt:[1", "mnt:[4294967296]", "]", "[x]"} {
		if _, ok := parseNS([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "18446744073709551615": math.MaxUint64, "007": 7} {
		if got, ok := parseU64([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", "-1", "18446744073709551616", "99999999999999999999999", "1 ", "a", "+1"} {
		if got, ok := parseU64([]byte(bad)); ok {
			t.Errorf("accepted %q as %d", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("10 (sh) S" + statTail))
	f.Add([]byte("10 (a) (b)\n) R 1 2 3 -1 -1 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := parseStat(b); ok {
			if st.start%engine.ProcStartUnit != 0 || len(st.comm) > len(b) {
				t.Errorf("%+v", st)
			}
		} else if st.comm != nil || st.start != 0 {
			t.Errorf("refused, but returned %+v", st)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusText))
	f.Fuzz(func(t *testing.T, b []byte) {
		task := engine.Task{Known: engine.FieldPPID.Set()}
		if found := parseStatus(b, &task); found&^fieldsStatus != 0 || task.Known != engine.FieldPPID.Set() {
			t.Errorf("found %v, known %v", found, task.Known)
		}
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("12:pids:/x\n0::/z\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseCgroup(b); ok && (len(p) == 0 || p[0] != '/' || bytes.IndexByte(p, '\n') >= 0) {
			t.Errorf("%q", p)
		}
	})
}

func FuzzParseNS(f *testing.F) {
	f.Add([]byte("mnt:[4026531841]"))
	f.Fuzz(func(t *testing.T, b []byte) { parseNS(b) })
}

func FuzzAppendNumbers(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0412\x00\x00\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0412\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(appendNumbers(nil, b)); n > len(b)/20 {
			t.Errorf("%d numbers of %d bytes", n, len(b))
		}
	})
}
