package engine_test

import (
	"testing"

	"github.com/quark-linux/quark/engine"
)

func TestPrivileges(t *testing.T) {
	const initial, all, unknown = 0xEFFFFFFD, 1<<41 - 1, "?"
	ids := engine.FieldsIDs.With(engine.FieldCaps).With(engine.FieldUserNS)
	for _, c := range []struct {
		what      string
		before    uint32 // effective user id
		set       bool   // by an ID_CHANGE right before the EXEC
		now       uint32
		mode      uint16
		permitted uint64
		ns        uint32
		want      string
	}{
		{"no bit", 1000, true, 1000, 0o755, 0, initial, ""},
		{"no bit, but another id", 1000, false, 0, 0o755, all, initial, ""},
		{"set-user-ID", 1000, false, 0, 0o4755, all, initial, "set_uid"},
		{"of another", 1000, false, 7, 0o4755, 0, initial, unknown},
		{"on a mount without set-id", 1000, false, 1000, 0o4755, 0, initial, ""},
		{"of the same user", 0, false, 0, 0o4755, all, initial, ""},
		{"the change came first", 0, true, 0, 0o4755, all, initial, unknown},
		{"capability of the file", 1000, false, 1000, 0o755, 1 << 10, initial, "file_caps"},
		{"root of another namespace, or so", 1000, false, 1000, 0o755, 1 << 10, initial + 1, unknown},
		{"nothing there", 1000, false, 1000, 0o755, 0, initial + 1, ""},
		{"root with less", 0, false, 0, 0o755, 1 << 10, initial, unknown},
	} {
		r := newRig(t, engine.Options{})
		kind := fork
		if c.set {
			kind = engine.KindIDChange
		}
		old := told(kind, 5, 100, ids)
		old.Task.Cred, old.IDChange = engine.Credentials{UID: 1000, EUID: c.before}, engine.ChangedUID
		if !c.set {
			old.IDChange = 0
		}
		r.src.Push(old)
		r.one(t)
		e := told(exec, 5, 200, ids.With(engine.FieldExeFile))
		e.Task.Cred = engine.Credentials{UID: 1000, EUID: c.now}
		e.Task.ExeFile.Mode = c.mode
		e.Task.Caps = engine.Capabilities{Permitted: c.permitted, Bounding: all}
		e.Task.NS.User = c.ns
		r.src.Push(e)
		p := r.one(t).Process
		got := unknown
		if p.Known.Has(engine.FieldPrivileges) {
			got = p.Privileges.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.what, got, c.want)
		}
		child := raw(fork, 6, 300)
		child.Creator = 5
		r.src.Push(child)
		if p := r.one(t).Process; p.Known.Has(engine.FieldPrivileges) {
			t.Errorf("%s: a child has %q", c.what, p.Privileges)
		}
	}
}
