package main

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/quark-linux/quark"
)

// names are what this host calls the ids of a process, "" for those without a name.
type names struct {
	User   string `json:"user,omitempty"`
	EUser  string `json:"euser,omitempty"`
	Group  string `json:"group,omitempty"`
	EGroup string `json:"egroup,omitempty"`
	Login  string `json:"login,omitempty"`
}

// appendNames adds the names of the ids of p, which may be nil, to the JSON object of an event, a
// line. Names that are not UTF-8 are left out.
func appendNames(line []byte, from *quark.Names, p *quark.Process) []byte {
	if p == nil {
		return line
	}
	name := func(of func(*quark.Process, uint32) string, f quark.Field, id uint32) string {
		if !p.Known.Has(f) {
			return ""
		}
		if text := of(p, id); utf8.ValidString(text) {
			return text
		}
		return ""
	}
	n := names{
		User:   name(from.User, quark.FieldUIDs, p.Cred.UID),
		EUser:  name(from.User, quark.FieldUIDs, p.Cred.EUID),
		Group:  name(from.Group, quark.FieldGIDs, p.Cred.GID),
		EGroup: name(from.Group, quark.FieldGIDs, p.Cred.EGID),
		Login:  name(from.User, quark.FieldLogin, p.Login.UID),
	}
	if n == (names{}) {
		return line
	}
	text, err := json.Marshal(n)
	if err != nil {
		return line
	}
	line = append(line[:len(line)-len("}\n")], `,"names":`...)
	return append(append(line, text...), "}\n"...)
}
