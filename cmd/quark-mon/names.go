package main

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/quark-linux/quark"
)

// names are this host's names for the ids of a process, "" for ids without a name. A name that is
// not UTF-8 has its true bytes, too.
type names struct {
	User      string `json:"user,omitempty"`
	UserB64   []byte `json:"user_b64,omitempty"`
	EUser     string `json:"euser,omitempty"`
	EUserB64  []byte `json:"euser_b64,omitempty"`
	Group     string `json:"group,omitempty"`
	GroupB64  []byte `json:"group_b64,omitempty"`
	EGroup    string `json:"egroup,omitempty"`
	EGroupB64 []byte `json:"egroup_b64,omitempty"`
	Login     string `json:"login_user,omitempty"`
	LoginB64  []byte `json:"login_user_b64,omitempty"`
}

// namer names ids, as quark.Names does.
type namer interface {
	User(p *quark.Process, uid uint32) string
	Group(p *quark.Process, gid uint32) string
}

// appendNames adds the names of the ids of p, which may be nil, to the JSON object of an event, a
// line.
func appendNames(line []byte, from namer, p *quark.Process) []byte {
	if p == nil {
		return line
	}
	name := func(of func(*quark.Process, uint32) string, f quark.Field, id uint32) (text string, b64 []byte) {
		if p.Known.Has(f) {
			text = of(p, id)
		}
		if !utf8.ValidString(text) {
			b64 = []byte(text)
		}
		return text, b64 // json.Marshal replaces invalid bytes
	}
	var n names
	n.User, n.UserB64 = name(from.User, quark.FieldUIDs, p.Cred.UID)
	n.EUser, n.EUserB64 = name(from.User, quark.FieldUIDs, p.Cred.EUID)
	n.Group, n.GroupB64 = name(from.Group, quark.FieldGIDs, p.Cred.GID)
	n.EGroup, n.EGroupB64 = name(from.Group, quark.FieldGIDs, p.Cred.EGID)
	n.Login, n.LoginB64 = name(from.User, quark.FieldLogin, p.Login.UID)
	if n.User+n.EUser+n.Group+n.EGroup+n.Login == "" {
		return line
	}
	text, err := json.Marshal(n)
	if err != nil {
		return line
	}
	line = append(line[:len(line)-len("}\n")], ',')
	return append(append(line, text[1:]...), '\n')
}
