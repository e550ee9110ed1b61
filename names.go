package quark

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/namefile"
)

// Names holds the names of this host's users and groups from /etc/passwd and /etc/group. Several
// goroutines may use it.
type Names struct {
	users, groups namefile.File
	// Ask, if not nil, returns the name of an id that is not in the file for database "passwd"
	// or "group". It is called once for each id, in the background. Set it before the first
	// use.
	Ask func(database, id string) string
}

// NewNames reads the two files. A lookup reads a changed file again, at most once a second. If the
// file can no longer be read, the old names remain.
func NewNames() *Names { return newNames("/etc/passwd", "/etc/group") }

func newNames(passwd, group string) *Names {
	n := new(Names)
	n.users.Path, n.groups.Path = passwd, group
	n.users.Name(0, nil)
	n.groups.Name(0, nil)
	return n
}

// User returns the name of a user id of p, "" if there is none. A nil p stands for a process of the
// host.
//
// The ids of a container belong to the container's own users, which have no names here. In a user
// namespace the ids are mapped to ids that the host assigned, so the host's names apply.
func (n *Names) User(p *Process, uid uint32) string { return n.name(&n.users, p, uid) }

// Group returns the name of a group id of p, as User does for user ids.
func (n *Names) Group(p *Process, gid uint32) string { return n.name(&n.groups, p, gid) }

func (n *Names) name(f *namefile.File, p *Process, id uint32) string {
	if p != nil && !(p.Known.Has(FieldUserNS) && p.NS.User != engine.InitialUserNamespace) {
		if c, _ := p.Container(); c.ID != "" {
			return ""
		}
	}
	return f.Name(id, n.Ask)
}
