package engine_test

import (
	"testing"

	"github.com/quark-linux/quark/engine"
)

func TestPrivileges(t *testing.T) {
	const initial, all, unknown, unsure = 0xEFFFFFFD, 1<<41 - 1, "?", 1<<32 - 1
	ids := engine.FieldsIDs.With(engine.FieldCaps).With(engine.FieldUserNS)
	const user, owner = 1000, 7
	for _, c := range []struct {
		what      string
		before    uint32 // effective user id; user is the real one
		now       uint32
		mode      uint16
		permitted uint64
		ns        uint32
		want      string
	}{
		{"no bit", user, user, 0o755, 0, initial, ""},
		{"no bit, but another id", user, 0, 0o755, all, initial, unknown},
		{"set-user-ID", user, 0, 0o4755, all, initial, "set_uid"},
		{"of another", user, owner, 0o4755, 0, initial, "set_uid"},
		{"without effect", user, user, 0o4755, 0, initial, ""},
		{"of the same user", 0, 0, 0o4755, all, initial, ""},
		{"to the real one, or taken away", 0, user, 0o4755, 0, initial, unknown},
		{"taken away", owner, user, 0o755, 0, initial, ""},
		{"taken away from root", 0, user, 0o755, all, initial, unknown},
		{"capability of the file", user, user, 0o755, 1 << 10, initial, "file_caps"},
		{"root of another namespace, or so", user, user, 0o755, 1 << 10, initial + 1, unknown},
		{"nothing there", user, user, 0o755, 0, initial + 1, ""},
		{"root with less", 0, 0, 0o755, 1 << 10, initial, unknown},
		{"not known before", unsure, user, 0o755, 0, initial, unknown},
	} {
		r := newRig(t, engine.Options{})
		r.src.Push(withFields(fork, 5, 100, ids))
		r.onlyEvent(t)
		e := withFields(exec, 5, 200, ids.With(engine.FieldExeFile))
		e.Before.EUID, e.Before.Known = c.before, c.before != unsure
		e.Task.Cred = engine.Credentials{UID: user, EUID: c.now}
		e.Task.ExeFile.Mode = c.mode
		e.Task.Caps = engine.Capabilities{Permitted: c.permitted, Bounding: all}
		e.Task.NS.User = c.ns
		r.src.Push(e)
		p := r.onlyEvent(t).Process
		got := unknown
		if p.Known.Has(engine.FieldPrivileges) {
			got = p.Privileges.String()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
		child := raw(fork, 6, 300)
		child.Creator = 5
		r.src.Push(child)
		if p := r.onlyEvent(t).Process; p.Known.Has(engine.FieldPrivileges) {
			t.Errorf("%s: child: got %q", c.what, p.Privileges)
		}
	}
}
