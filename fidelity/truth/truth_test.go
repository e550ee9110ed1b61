package truth

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

func stateOf(pairs ...string) (s State) {
	for i := 0; i < len(pairs); i += 2 {
		for f := range engine.Field(engine.NumFields) {
			if f.String() == pairs[i] {
				s.Set(f, pairs[i+1])
			}
		}
	}
	return s
}

func TestStateThroughJSON(t *testing.T) {
	want := stateOf("comm", "\xff\xfe", "args", "a\x00\x00", "cwd", "")
	b, err := json.Marshal(Record{Op: Exec, State: want})
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.State); d != "" {
		t.Error(d)
	}
	if err := new(State).UnmarshalJSON([]byte(`{"77":"AA=="}`)); err == nil {
		t.Error("an unknown field was accepted")
	}
}

// TestReadMatchesSystemCalls compares the values that become ground truth with system calls.
func TestReadMatchesSystemCalls(t *testing.T) {
	p, err := OpenProc()
	if err != nil {
		t.Skip(err)
	}
	defer p.Close()
	pid, s, err := p.Read("self")
	if err != nil {
		t.Fatal(err)
	}
	sid, _ := unix.Getsid(0)
	pgid, _ := unix.Getpgid(0)
	cwd, _ := os.Getwd()
	exe, _ := os.Executable()
	for f, want := range map[engine.Field]string{
		engine.FieldPPID: strconv.Itoa(os.Getppid()), engine.FieldSID: strconv.Itoa(sid), engine.FieldPGID: strconv.Itoa(pgid),
		engine.FieldUIDs: strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(os.Geteuid()),
		engine.FieldGIDs: strconv.Itoa(os.Getgid()) + " " + strconv.Itoa(os.Getegid()),
		engine.FieldArgs: strings.Join(os.Args, "\x00") + "\x00", engine.FieldCwd: cwd, engine.FieldExe: exe,
	} {
		if got := s.Value[f]; got != want {
			t.Errorf("%s: got %q, want %q", f, got, want)
		}
	}
	unread := engine.FieldsUsage | engine.SetOf(engine.FieldExit, engine.FieldBirthParentTID, engine.FieldExecPath, engine.FieldEnviron,
		engine.FieldEntryLeader, engine.FieldPrivileges)
	for f := range engine.Field(engine.NumFields) {
		if s.Value[f] == "" && !unread.Has(f) {
			t.Errorf("%s is empty", f)
		}
	}
	if pid != os.Getpid() {
		t.Errorf("got pid %d, want %d", pid, os.Getpid())
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	if _, s, err := p.Read(strconv.Itoa(cmd.Process.Pid)); err == nil {
		t.Errorf("got state %v of a process that has ended", s)
	}
}

func TestCgroupOf(t *testing.T) {
	for in, want := range map[string]string{
		"0::/a/b\n": "/a/b", "4:pids:/p\n3:cpu,cpuacct:/c\n": "/p", "4:pids:/p\n0::/two\n": "/two", "3:cpu:/c\n": "", "0::/a:b\n": "/a:b",
	} {
		if got, ok := CgroupOf(in); got != want || ok != (want != "") {
			t.Errorf("%q: got %q %v, want %q", in, got, ok, want)
		}
	}
}

func TestAssemble(t *testing.T) {
	// Unordered records. Two processes have the pid, one after the other.
	records := []Record{
		{Op: Exit, PID: 5, Latest: 90, Status: 256},
		{Op: Exec, PID: 5, Latest: 40, Own: true, State: stateOf("comm", "two", "cwd", "/b")},
		{Op: Fork, PID: 5, Earliest: 10, Latest: 45, Creator: 4, Parent: 4},
		{Op: IDs, PID: 5, Earliest: 20, Latest: 22, Own: true, State: stateOf("uid+euid", "7 8")},
		{Op: Now, PID: 5, Latest: 60, State: stateOf("cgroup", "/late", "ppid", "1", "parent_signal", "17")},
		{Op: Fork, PID: 4, Earliest: 1, Latest: 2, Parent: 3},
		{Op: Exec, PID: 4, Latest: 5, Own: true, State: stateOf("uid+euid", "0 0", "caps", "all", "comm", "one", "cwd", "/a", "tty", "1:2")},
		{Op: Exit, PID: 4, Latest: 200},
		{Op: Fork, PID: 5, Earliest: 91, Latest: 95, Creator: 4, Parent: 4, Fresh: engine.FieldTTY.Set()},
		{Op: Exit, PID: 5, Latest: 99, Status: 9},
	}
	processes, err := Assemble(records)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range processes {
		for _, e := range l.Events {
			line := []string{strconv.Itoa(l.PID), e.Kind.String(), strconv.FormatUint(e.Earliest, 10), strconv.FormatUint(e.Latest, 10)}
			for _, f := range []engine.Field{engine.FieldPPID, engine.FieldUIDs, engine.FieldSUID, engine.FieldCaps, engine.FieldComm,
				engine.FieldCwd, engine.FieldTTY, engine.FieldCgroup, engine.FieldParentSignal} {
				if e.State.Known.Has(f) {
					line = append(line, f.String()+"="+e.State.Value[f])
				}
			}
			got = append(got, strings.Join(line, " "))
		}
	}
	want := []string{
		"4 FORK 1 2 ppid=3",
		"4 EXEC 1 5 ppid=3 uid+euid=0 0 caps=all comm=one cwd=/a tty=1:2",
		"4 EXIT 5 200 ppid=3 uid+euid=0 0 caps=all comm=one cwd=/a tty=1:2",
		"5 FORK 10 45 ppid=4 uid+euid=0 0 caps=all comm=one cwd=/a tty=1:2",
		"5 ID_CHANGE 20 22 ppid=4 uid+euid=7 8 comm=one cwd=/a tty=1:2",
		"5 EXEC 22 40 ppid=4 uid+euid=7 8 suid=8 comm=two cwd=/b tty=1:2 cgroup=/late",
		"5 EXIT 40 90 ppid=1 uid+euid=7 8 suid=8 comm=two cwd=/b tty=1:2 cgroup=/late parent_signal=17",
		"5 FORK 91 95 ppid=4 uid+euid=0 0 caps=all comm=one cwd=/a",
		"5 EXIT 91 99 ppid=4 uid+euid=0 0 caps=all comm=one cwd=/a",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	first, second := processes[1], processes[2]
	if !first.Events[0].Before(first.Events[1]) || first.Events[1].Before(first.Events[0]) {
		t.Error("events of one process are not ordered")
	}
	if !first.Events[3].Before(second.Events[0]) || processes[0].Events[2].Before(second.Events[0]) {
		t.Error("the clock does not decide between processes")
	}
}

// An exec without recorded ids, as in a user namespace, may have changed them.
func TestUnknownIDsOfExec(t *testing.T) {
	processes, err := Assemble([]Record{
		{Op: Fork, PID: 4, Earliest: 1, Latest: 1, State: stateOf("uid+euid", "0 0", "suid", "1")},
		{Op: Exec, PID: 4, Earliest: 2, Latest: 3, Own: true, Open: engine.FieldsIDs},
		{Op: Exit, PID: 4, Earliest: 4, Latest: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := processes[0].Events[1]; e.Kind != engine.KindIDChange || e.ID != engine.ChangedUID || !e.Optional {
		t.Errorf("got %+v", e)
	}
}

// An exec that may have been interrupted may have changed ids.
func TestIDsOfOptionalExec(t *testing.T) {
	processes, err := Assemble([]Record{
		{Op: Fork, PID: 4, Earliest: 1, Latest: 1},
		{Op: Exec, PID: 4, Earliest: 2, Latest: 3, Own: true, Optional: true, Open: engine.FieldsIDs, ID: engine.ChangedUID | engine.ChangedGID},
		{Op: Exit, PID: 4, Earliest: 4, Latest: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := engine.IDChange(0)
	for _, e := range processes[0].Events {
		if e.Kind == engine.KindIDChange && e.Optional && !e.Unchanged && !e.State.Known.Has(engine.FieldUIDs) {
			ids |= e.ID
		}
	}
	if ids != engine.ChangedUID|engine.ChangedGID {
		t.Errorf("got optional changes %v, want user and group ids", ids)
	}
}

// An exec resets the file system uid, which may come from the creator, and the ids that only a
// thread had. It resets no other fields.
func TestExecSetsIDsBack(t *testing.T) {
	set := Record{Op: IDs, ID: engine.ChangedUID, PID: 4, Earliest: 3, Latest: 4, Own: true, Optional: true, Unchanged: true}
	changed := Record{Op: IDs, ID: engine.ChangedUID, PID: 4, Earliest: 5, Latest: 6, Own: true}
	for _, c := range []struct {
		name  string
		ids   []Record
		forks uint64
		own   engine.IDChange // of the executing thread
		want  engine.IDChange
	}{
		{"no change", nil, 10, 0, 0},
		{"of the creator", []Record{set}, 10, 0, engine.ChangedUID},
		{"all user ids after it", []Record{set, changed}, 10, 0, 0},
		{"after the fork", []Record{set}, 2, 0, 0},
		{"of a thread", nil, 10, engine.ChangedGID, engine.ChangedGID},
	} {
		processes, err := Assemble(append([]Record{
			{Op: Fork, PID: 4, Earliest: 1, Latest: 1, Parent: 3},
			{Op: Exit, PID: 4, Earliest: 40, Latest: 40},
			{Op: Fork, PID: 5, Earliest: c.forks, Latest: c.forks, Creator: 4, Parent: 4},
			{Op: Exec, PID: 5, Earliest: 20, Latest: 21, Own: true, ID: c.own},
			{Op: Exec, PID: 5, Earliest: 22, Latest: 23, Own: true},
			{Op: Exit, PID: 5, Earliest: 30, Latest: 30},
		}, c.ids...))
		if err != nil {
			t.Fatal(err)
		}
		ids := engine.IDChange(0)
		for i, e := range processes[1].Events {
			if e.Kind == engine.KindIDChange {
				if ids |= e.ID; i != 1 || !e.Optional || !e.Unchanged {
					t.Errorf("%s: event %d: got %+v", c.name, i, e)
				}
			}
		}
		if ids != c.want {
			t.Errorf("%s: got reset %v, want %v", c.name, ids, c.want)
		}
	}
}

func TestAssembleRefuses(t *testing.T) {
	fork := Record{Op: Fork, PID: 5, Earliest: 10, Latest: 11}
	for name, list := range map[string][]Record{
		"an orphan":       {{Op: Exec, PID: 5, Latest: 3}},
		"before its fork": {fork, {Op: Exec, PID: 5, Latest: 3}},
		"two ends":        {fork, {Op: Exit, PID: 5, Latest: 20}, {Op: Exit, PID: 5, Latest: 21}},
	} {
		if _, err := Assemble(list); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
