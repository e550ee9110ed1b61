package btfhub

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestReadSelf(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	truth, err := ReadSelf()
	if errors.Is(err, ErrNamespaced) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if truth.TID == 0 || truth.PID == 0 || truth.Comm == "" || truth.StartBoottime == 0 {
		t.Errorf("%+v", truth)
	}
	if err := truth.Provoke(); err != nil {
		t.Error(err)
	}
	again, err := ReadSelf()
	if err != nil {
		t.Fatal(err)
	}
	if err := truth.Check(again); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	truth := Self{TID: 11, PID: 10, PPID: 1, UID: 1000, Comm: "a) b", StartBoottime: 5 * tick}
	exact := truth
	exact.StartBoottime += tick - 1 // the kernel knows more than /proc says
	if err := truth.Check(exact); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Self){
		"tid":        func(s *Self) { s.TID++ },
		"pid":        func(s *Self) { s.PID = 0 },
		"ppid":       func(s *Self) { s.PPID = 7 },
		"uid":        func(s *Self) { s.UID = 0 },
		"comm":       func(s *Self) { s.Comm = "" },
		"start time": func(s *Self) { s.StartBoottime += tick },
	} {
		read := truth
		change(&read)
		if err := truth.Check(read); err == nil || !strings.Contains(err.Error(), ": "+name+" is ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12345 20"
	comm, start, err := parseStat("17 (a) (b)" + rest)
	if comm != "a) (b" || start != 12345*tick || err != nil {
		t.Errorf("%q %d %v", comm, start, err)
	}
	for _, line := range []string{"", "17", ")(", "17 (x) S 1", "17 (x)" + strings.Replace(rest, "12345", "99999999999999999999", 1)} {
		if _, _, err := parseStat(line); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
}
