package proctext

import (
	"bytes"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statTail = " 1 2 3 34817 4 1077936192 5 0 0 0 0 0 0 0 20 0 7 0 12345 0 0 0 4096 0 1 0 0 256 0 0 0 0 0 0 17 0"

func TestParseStat(t *testing.T) {
	want := Stat{
		State: 'S', PPID: 1, PGID: 2, SID: 3, TTYMajor: 136, TTYMinor: 1,
		Flags: 1077936192, Faults: 5, Threads: 7, Start: 12345 * Tick, Code: 4096, Stack: 1, ExitSignal: 17, Killed: true,
	}
	for _, c := range []struct{ name, text, comm string }{
		{"plain", "10 (sh) S" + statTail, "sh"},
		{"empty comm", "10 () S" + statTail, ""},
		{"parenthesis", "10 (a) S 1) S" + statTail, "a) S 1"},
		{"open only", "10 (((() S" + statTail, "((("},
		{"newline and blank", "10 (a\n b ) S" + statTail + "\n", "a\n b "},
		{"not UTF-8", "10 (\xff\x00) S" + statTail, "\xff\x00"},
		{"whole", "10 (sh) S" + statTail + " 0 0 0 0 0 94 95 96 8192 98 99 100 0", "sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := want
			if c.name == "whole" {
				want.Args = 8192
			}
			want.Comm = []byte(c.comm)
			got, ok := ParseStat([]byte(c.text))
			if !ok {
				t.Fatal("rejected")
			}
			if d := cmp.Diff(want, got); d != "" {
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
		if _, ok := ParseStat([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestParseTTY(t *testing.T) {
	for _, c := range []struct {
		dev          string
		major, minor uint32
	}{
		{"0", 0, 0},
		{"1025", 4, 1},
		{"-2147418367", 255, 0x80001},
	} {
		b := bytes.Replace([]byte("1 (a) S"+statTail), []byte("34817"), []byte(c.dev), 1)
		got, ok := ParseStat(b)
		if !ok || got.TTYMajor != c.major || got.TTYMinor != c.minor {
			t.Errorf("device %s: got %+v, ok %v, want %d:%d", c.dev, got, ok, c.major, c.minor)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		hierarchy        Hierarchy
	}{
		{"v2", "0::/user.slice/a:b\n", "/user.slice/a:b", UnifiedCgroup},
		{"v2 root", "0::/\n", "/", UnifiedCgroup},
		{"hybrid", "12:pids:/x\n1:name=systemd:/y\n0::/z\n", "/z", UnifiedCgroup},
		{"v1", "12:cpu,cpuacct:/c\n7:cpuset,pids:/x\n1:name=systemd:/y\n", "/x", PIDsCgroup},
		{"not pids", "7:spids,pidsx:/x\n", "", NoHierarchy},
		{"no path", "0::\n", "", NoHierarchy},
		{"garbage", "\n:\n::\n0:\n", "", NoHierarchy},
		{"empty", "", "", NoHierarchy},
	} {
		got, hierarchy := ParseCgroup([]byte(c.text))
		if string(got) != c.want || hierarchy != c.hierarchy {
			t.Errorf("%s: got path %q, hierarchy %v, want %q, %v", c.name, got, hierarchy, c.want, c.hierarchy)
		}
	}
}

func TestParseNS(t *testing.T) {
	for text, want := range map[string]uint32{"mnt:[4026531841]": 4026531841, "uts:[0]": 0} {
		if got, ok := ParseNamespace([]byte(text)); !ok || got != want {
			t.Errorf("%q: got %d, ok %v, want %d", text, got, ok, want)
		}
	}
	for _, bad := range []string{"", "mnt:[", "mnt:[]", "mnt:[1", "mnt:[4294967296]", "]", "[x]"} {
		if _, ok := ParseNamespace([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "18446744073709551615": math.MaxUint64, "007": 7} {
		if got, ok := Uint64([]byte(text), 10); !ok || got != want {
			t.Errorf("%q: got %d, ok %v, want %d", text, got, ok, want)
		}
	}
	for _, bad := range []string{"", "-1", "18446744073709551616", "99999999999999999999999", "1 ", "a", "+1"} {
		if got, ok := Uint64([]byte(bad), 10); ok {
			t.Errorf("accepted %q as %d", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("10 (sh) S" + statTail))
	f.Add([]byte("10 (a) (b)\n) R 1 2 3 -1 -1 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := ParseStat(b); ok {
			if st.Start%Tick != 0 || len(st.Comm) > len(b) {
				t.Errorf("got %+v", st)
			}
		} else if st.Comm != nil || st.Start != 0 {
			t.Errorf("rejected, but returned %+v", st)
		}
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("12:pids:/x\n0::/z\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, h := ParseCgroup(b); h != NoHierarchy && (len(p) == 0 || p[0] != '/' || bytes.IndexByte(p, '\n') >= 0) {
			t.Errorf("got path %q", p)
		}
	})
}

func FuzzParseNS(f *testing.F) {
	f.Add([]byte("mnt:[4026531841]"))
	f.Fuzz(func(t *testing.T, b []byte) { ParseNamespace(b) })
}

func TestReadStat(t *testing.T) {
	own, err := ReadStat("/proc/self/stat")
	if err != nil {
		t.Skip(err)
	}
	if own.Exiting() || own.Start == 0 || int(own.PPID) != os.Getppid() {
		t.Errorf("got own stat %+v", own)
	}
	ending, ok := ParseStat([]byte("1 (a) Z) (\n) Z 0 1 1 0 -1 4194564 1 2 3 4 5 6 7 8 20 0 1 0 78 1 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17\n"))
	if !ok || !ending.Exiting() || ending.State != 'Z' || ending.Start != 78*Tick {
		t.Errorf("got stat of a zombie %+v, ok %v", ending, ok)
	}
}

func TestOwnNamespace(t *testing.T) {
	if _, err := os.Stat("/proc/self/ns/pid"); err != nil {
		t.Skip(err)
	}
	if inode, err := OwnNamespace("pid"); err != nil || inode == 0 || InInitialNamespace("pid") != (inode == 0xeffffffc) {
		t.Errorf("got pid namespace %#x, error %v", inode, err)
	}
	if _, err := OwnNamespace("none"); err == nil {
		t.Error("a namespace without kind: got no error")
	}
}
