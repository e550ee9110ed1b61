package main

import (
	"encoding/json"

	"github.com/quark-linux/quark"
)

// names has the names of a process's ids on this host, "" for ids without a name.
type names struct {
	User   string `json:"user,omitempty"`
	EUser  string `json:"euser,omitempty"`
	Group  string `json:"group,omitempty"`
	EGroup string `json:"egroup,omitempty"`
	Login  string `json:"login_user,omitempty"`
}

// appendNames adds the names of p's ids to a line of JSON. p may be nil.
func appendNames(line []byte, from *quark.Names, p *quark.Process) []byte {
	if p == nil {
		return line
	}
	name := func(of func(*quark.Process, uint32) string, f quark.Field, id uint32) string {
		if !p.Known.Has(f) {
			return ""
		}
		return of(p, id)
	}
	n := names{
		name(from.User, quark.FieldUIDs, p.Cred.UID), name(from.User, quark.FieldUIDs, p.Cred.EUID),
		name(from.Group, quark.FieldGIDs, p.Cred.GID), name(from.Group, quark.FieldGIDs, p.Cred.EGID), name(from.User, quark.FieldLogin, p.Login.UID),
	}
	if n == (names{}) {
		return line
	}
	text, err := json.Marshal(n)
	if err != nil {
		return line
	}
	line = append(line[:len(line)-len("}\n")], ',')
	return append(append(line, text[1:]...), '\n')
}
