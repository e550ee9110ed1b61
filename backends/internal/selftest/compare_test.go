package selftest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// sample returns an event whose fields all have different values.
func sample(k engine.Kind) *engine.RawEvent {
	ev := &engine.RawEvent{Kind: k, PID: 100, TID: 100, Creator: 99}
	for _, f := range []engine.Field{engine.FieldComm, engine.FieldExe, engine.FieldArgs, engine.FieldCwd, engine.FieldCgroup} {
		ev.Set(f, []byte("/"+f.String()))
	}
	t := &ev.Task
	t.Known = engine.AllFields &^ engine.FieldsUsage // /proc does not show the usage
	t.Start, t.StartUnit = 5*engine.ProcStartUnit, engine.ProcStartUnit
	t.PPID, t.PGID, t.SID = 1, 2, 3
	t.Cred = engine.Credentials{UID: 4, EUID: 5, SUID: 6, GID: 7, EGID: 8, SGID: 9}
	t.Caps = engine.Capabilities{Inheritable: 10, Permitted: 11, Effective: 12, Bounding: 13, Ambient: 14}
	t.TTY = engine.TTY{Major: 15, Minor: 16}
	t.NS = engine.Namespaces{UTS: 17, IPC: 18, Mnt: 19, Net: 20, PID: 22, User: 23, Cgroup: 24, Time: 25}
	t.NSPID = 26
	t.Exit = engine.Exit{WaitStatus: 21}
	return ev
}

// all returns a table where each event has every field.
func all() *engine.CapabilityTable {
	table := new(engine.CapabilityTable)
	for f := range table.Fields {
		table.Fields[f] = engine.Capability{Origin: engine.OriginKernel, At: ^engine.Events(0)}
	}
	return table
}

func TestCompare(t *testing.T) {
	truth, table := sample(engine.KindExec), all()
	right := sample(engine.KindExec)
	// The kernel's start time is more precise than the value in /proc.
	right.Task.Start, right.Task.StartUnit = right.Task.Start+engine.ProcStartUnit-1, 1
	right.Task.Exit.Time = 1
	if wrong := compare(right, truth, table); wrong != nil {
		t.Fatal(wrong)
	}
	for name, change := range map[string]func(*engine.RawEvent){
		"pid":       func(ev *engine.RawEvent) { ev.PID++ },
		"tid":       func(ev *engine.RawEvent) { ev.TID++ },
		"creator":   func(ev *engine.RawEvent) { ev.Creator++ },
		"start":     func(ev *engine.RawEvent) { ev.Task.Start += engine.ProcStartUnit },
		"ppid":      func(ev *engine.RawEvent) { ev.Task.PPID = 0 },
		"pgid":      func(ev *engine.RawEvent) { ev.Task.PGID = 0 },
		"sid":       func(ev *engine.RawEvent) { ev.Task.SID = 0 },
		"uid+euid":  func(ev *engine.RawEvent) { ev.Task.Cred.EUID = 0 },
		"suid":      func(ev *engine.RawEvent) { ev.Task.Cred.SUID = 0 },
		"gid+egid":  func(ev *engine.RawEvent) { ev.Task.Cred.GID = 0 },
		"sgid":      func(ev *engine.RawEvent) { ev.Task.Cred.SGID = 0 },
		"caps":      func(ev *engine.RawEvent) { ev.Task.Caps.Ambient = 0 },
		"tty":       func(ev *engine.RawEvent) { ev.Task.TTY.Minor = 0 },
		"uts_ns":    func(ev *engine.RawEvent) { ev.Task.NS.UTS = 0 },
		"ipc_ns":    func(ev *engine.RawEvent) { ev.Task.NS.IPC = 0 },
		"mnt_ns":    func(ev *engine.RawEvent) { ev.Task.NS.Mnt = 0 },
		"net_ns":    func(ev *engine.RawEvent) { ev.Task.NS.Net = 0 },
		"pid_ns":    func(ev *engine.RawEvent) { ev.Task.NSPID = 0 },
		"user_ns":   func(ev *engine.RawEvent) { ev.Task.NS.User = 0 },
		"cgroup_ns": func(ev *engine.RawEvent) { ev.Task.NS.Cgroup = 0 },
		"time_ns":   func(ev *engine.RawEvent) { ev.Task.NS.Time = 0 },
		"comm":      func(ev *engine.RawEvent) { ev.Set(engine.FieldComm, nil) },
		"exe":       func(ev *engine.RawEvent) { ev.Set(engine.FieldExe, []byte("/else")) },
		"args":      func(ev *engine.RawEvent) { ev.Set(engine.FieldArgs, []byte("/cmdline\x00")) },
		"cwd":       func(ev *engine.RawEvent) { ev.Set(engine.FieldCwd, []byte("/")) },
		"cgroup":    func(ev *engine.RawEvent) { ev.Set(engine.FieldCgroup, []byte("/cgroup/below")) },
		"exit":      func(ev *engine.RawEvent) { ev.Task.Exit.WaitStatus = 0 },
	} {
		read := sample(engine.KindExec)
		change(read)
		wrong := compare(read, truth, table)
		if len(wrong) != 1 || !strings.HasPrefix(wrong[0], name+" at EXEC: got ") || !strings.Contains(wrong[0], ", want ") {
			t.Errorf("%s: got differences %q", name, wrong)
		}
	}
}

func TestCompareUnknown(t *testing.T) {
	for f := range engine.FieldEntryLeader { // no source reports the entry leader
		if engine.FieldsUsage.Has(f) {
			continue
		}
		truth, table := sample(engine.KindExec), all()
		read := sample(engine.KindExec)
		read.Task.Known &^= f.Set()
		if wrong := compare(read, truth, table); len(wrong) != 1 || !strings.Contains(wrong[0], f.String()) {
			t.Errorf("unknown %v: got differences %q", f, wrong)
		}
		for name, c := range map[string]engine.Capability{
			"not from the kernel": {Origin: engine.OriginProc, At: engine.EventExec},
			"with another event":  {Origin: engine.OriginKernel, At: engine.EventFork},
			"not always":          {Origin: engine.OriginKernel, At: engine.EventExec, Partial: engine.EventExec},
		} {
			table.Fields[f] = c
			if wrong := compare(read, truth, table); wrong != nil {
				t.Errorf("%v, %s: got differences %q", f, name, wrong)
			}
		}
		read = sample(engine.KindExec)
		read.Task.Truncated = f.Set()
		if wrong := compare(read, truth, table); len(wrong) != 1 || !strings.Contains(wrong[0], "cut") {
			t.Errorf("truncated %v: got differences %q", f, wrong)
		}
		truth.Task.Known &^= f.Set()
		if wrong := compare(read, truth, table); wrong != nil {
			t.Errorf("%v without a true value: got differences %q", f, wrong)
		}
	}
}

// populate is a source that implements only Populate.
type populate func(engine.Sink) error

func (p populate) Populate(to engine.Sink) error { return p(to) }

func TestCheck(t *testing.T) {
	truth := sample(engine.KindExit)
	bad := sample(engine.KindExit)
	bad.Task.PPID = 77
	other := sample(engine.KindExit)
	other.PID = 5
	thread := sample(engine.KindExit)
	thread.Thread = true
	calls := 0
	run := func(limit time.Duration, evs ...*engine.RawEvent) error {
		source := populate(func(to engine.Sink) error {
			if calls++; calls%3 == 0 { // the events arrive after some calls
				for _, ev := range evs {
					to.Insert(ev)
				}
			}
			return nil
		})
		x := &test{pid: truth.PID, table: all(), limit: limit, source: source}
		return x.check(truth)
	}
	if err := run(time.Minute, other, thread, truth, bad); err != nil {
		t.Error(err)
	}
	if err := run(time.Minute, bad); err == nil || !strings.Contains(err.Error(), "ppid at EXIT: got 77, want 1") {
		t.Errorf("got error %v", err)
	}
	if err := run(20*time.Millisecond, other, thread); err == nil || !strings.Contains(err.Error(), "no EXIT of process 100") {
		t.Errorf("got error %v", err)
	}
}

func TestRunReturnsErrorOfSource(t *testing.T) {
	err := Run(all(), populate(func(engine.Sink) error { return os.ErrClosed }))
	if !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), btfhub.PathVariable) {
		t.Errorf("got error %v", err)
	}
}
