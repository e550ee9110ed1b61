package ctest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
)

// rich is a process with a value in each member that a source can report.
func rich(p *enginetest.Process) {
	s := &p.State
	s.ExecPath, s.Environ = []byte("./sh"), []byte("LANG=C\x00EMPTY=\x00")
	t := &s.Task
	t.Known = engine.AllFields &^ (engine.FieldsUsage | engine.SetOf(engine.FieldExit, engine.FieldArgs, engine.FieldExe))
	t.Cached = engine.SetOf(engine.FieldCwd, engine.FieldCgroup)
	t.Truncated = engine.SetOf(engine.FieldCwd)
	t.ParentSignal, t.NSPID, t.ParentTID = 17, 4, 5
	for i, all := 0, reflect.ValueOf(&t.Inherited).Elem(); i < all.NumField(); i++ {
		if all.Field(i).CanUint() {
			all.Field(i).SetUint(uint64(i))
		}
	}
	t.Login = engine.Login{UID: 6, Session: 7}
	t.Caps = engine.Capabilities{Inheritable: 1 << 40, Permitted: 1 << 39, Effective: 1 << 38, Bounding: 1 << 37, Ambient: 1 << 36}
	t.TTY = engine.TTY{Major: 136, Minor: 8}
	t.NS = engine.Namespaces{UTS: 11, IPC: 12, Mnt: 13, Net: 14, PID: 15, User: engine.InitialUserNamespace, Cgroup: 17, Time: 18}
	t.Cred = engine.Credentials{UID: 21, EUID: 31, SUID: 23, GID: 24, EGID: 25, SGID: 26}
	t.ExeFile = engine.ExeFile{Inode: 1 << 50, Ctime: -1, Device: 8<<8 | 3, UID: 31, GID: 25, Mode: 0o102755, Removed: true}
	for i := range t.Stdio {
		t.Stdio[i] = engine.Stream{Inode: 1<<40 + uint64(i), Device: 8<<8 | uint32(i), Family: engine.Family(i + 1), Type: engine.StreamSocket}
	}
	s.Before.Known, s.Before.EUID, s.Before.EGID = true, 31, 24
	s.Usage = engine.Usage{UserTime: 1 << 41, SystemTime: 42, PeakRSS: 43, RChar: 44, WChar: 45, ReadBytes: 46, WriteBytes: 47}
}

// lives returns the machine that testdata/check.c expects.
func lives() *enginetest.Machine {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	sh.Fork().Exec("/usr/bin/true", "a b", "", "-c").Exit(3)
	m.Miss(engine.LossSkipped, 7)
	p := sh.Fork()
	p.SetUID(1000).SetGID(1000).SetComm("renamed")
	p.ExecFails("/no/such/file", 2)
	p.Exec("/usr/bin/long", strings.Repeat("x", 18000)) // more than there is room for at first
	p.Kill(9)
	p = sh.Fork()
	rich(p)
	p.Exec("/tmp/rich")
	p.State.Task.Known |= engine.FieldsUsage
	p.State.Task.Cached |= engine.FieldsIDs
	p.Exit(3)
	sh.Fork().ChangeNS(engine.NSChange{Changed: 255, NewPID: 9,
		Old: engine.Namespaces{UTS: 1, IPC: 2, Mnt: 3, Net: 4, PID: 5, User: 6, Cgroup: 7, Time: 8}}).Exit(3)
	return m
}

// growing makes events that grow by one byte each, so that some event is just too long for the
// memory of the previous event.
func growing() *enginetest.Machine {
	m := enginetest.NewMachine()
	p := m.Running("/bin/sh").Fork()
	for n := range 700 {
		p.Exec("/bin/true", strings.Repeat("x", n))
	}
	return m
}

// record returns a recording of a source.
func record(t testing.TB, from quark.Source) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := trace.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(from, quark.Options{Record: w})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, q, func(*quark.Event) {})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// drain calls f with all events of a replay, and closes the queue.
func drain(t testing.TB, q *quark.Queue, f func(*quark.Event)) {
	t.Helper()
	defer q.Close()
	for {
		ev, err := q.Get()
		switch {
		case err == nil:
			f(ev)
		case !errors.Is(err, quark.ErrNothing):
			t.Fatal(err)
		case q.Drained():
			return
		default:
			if err := q.Block(-1); err != nil { // the clock of a replay moves in it
				t.Fatal(err)
			}
		}
	}
}

// replay returns a queue of a recording.
func replay(t testing.TB, recording []byte) *quark.Queue {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(r, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// write writes a file of the test and returns its path.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
