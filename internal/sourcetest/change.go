package sourcetest

import (
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// openIDs opens a source that reports changed ids, or skips.
func (c Conformance) openIDs(t *testing.T) Source {
	t.Helper()
	s := c.Open(t, Options{})
	if how := s.Capabilities().Kinds[engine.KindIDChange]; how.Origin == engine.OriginNone {
		t.Skip("no ID_CHANGE: " + how.Via)
	}
	return s
}

func (c Conformance) idChange(t *testing.T) {
	s := c.openIDs(t)
	cmd := Child("set-ids")
	// The Go runtime starts it as a group leader's child: setsid works.
	_, evs := Run(t, s, cmd)
	got := evs.Of(cmd.Process.Pid, engine.KindIDChange)
	if len(got) != 3 {
		t.Fatalf("%d changes, not 3: %s", len(got), evs.Kinds(cmd.Process.Pid))
	}
	for i, want := range []engine.IDChange{engine.ChangedGID, engine.ChangedUID, engine.ChangedSID} {
		if got[i].IDChange != want {
			t.Errorf("change %d is %v, not %v", i, got[i].IDChange, want)
		}
	}
	if got, want := got[2].Task.Cred, ChangedCredentials; got != want {
		t.Errorf("ids are %v, not %v", got, want)
	}
	if c := got[0].Task.Cred; c.UID != 0 || c.EGID != 12 {
		t.Errorf("ids after setresgid: %v", c)
	}
	if got[2].Task.SID != uint32(cmd.Process.Pid) || got[2].Task.PGID != uint32(cmd.Process.Pid) {
		t.Errorf("session %d, group %d", got[2].Task.SID, got[2].Task.PGID)
	}
}

// ChangedCredentials are those of the program "set-ids" at its end.
var ChangedCredentials = engine.Credentials{UID: 21, EUID: 22, SUID: 23, GID: 11, EGID: 12, SGID: 13}

func (c Conformance) setFSUID(t *testing.T) { WantOnlySaved(t, c.openIDs(t)) }

// WantOnlySaved runs a program that sets ids which are none of quark's, or to
// what they are: only the one true change of its saved user id may be told. A
// source that reads ids at the exits of syscalls can't tell that they are as
// before: there the six calls that set quark's ids may be told too.
func WantOnlySaved(t testing.TB, s Source) {
	t.Helper()
	want := 1
	via := s.Capabilities().Kinds[engine.KindIDChange].Via
	if strings.Contains(via, "sys_exit_") && strings.Contains(via, "setresuid") {
		want += 6
	}
	cmd := Child("set-fs-ids")
	_, evs := Run(t, s, cmd)
	got := evs.Of(cmd.Process.Pid, engine.KindIDChange)
	if len(got) != want {
		t.Fatalf("%d changes, not %d: %s", len(got), want, evs.Kinds(cmd.Process.Pid))
	}
	if last := got[want-1]; last.IDChange != engine.ChangedUID || last.Task.Cred.SUID != 7 || last.Task.Cred.UID != 0 {
		t.Errorf("%v to %v", last.IDChange, last.Task.Cred)
	}
}

func (c Conformance) rename(t *testing.T) {
	s := c.Open(t, Options{})
	cmd := Child("rename")
	_, evs := Run(t, s, cmd)
	WantText(t, evs.One(t, cmd.Process.Pid, engine.KindComm), engine.FieldComm, "new name")
}
