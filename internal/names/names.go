// Package names returns the names of user and group ids of a process.
package names

import "github.com/quark-linux/quark/engine"

// Names holds the names of this host's users and groups from /etc/passwd and /etc/group. Several
// goroutines may use it.
type Names struct {
	users, groups file
	// Ask, if not nil, returns the name of an id that is not in the file for database "passwd"
	// or "group". It is called once for each id, in the background. Set it before the first
	// use.
	Ask func(database, id string) string
}

// New reads the two files. A lookup reads a changed file again, at most once a second. If the
// file can no longer be read, the old names remain.
func New() *Names { return open("/etc/passwd", "/etc/group") }

func open(passwd, group string) *Names {
	n := new(Names)
	n.users.path, n.groups.path = passwd, group
	n.users.name(0, nil)
	n.groups.name(0, nil)
	return n
}

// User returns the name of a user id of p, "" if there is none. A nil p stands for a process of the
// host.
//
// The ids of a container belong to the container's own users, which have no names here. In a user
// namespace the ids are mapped to ids that the host assigned, so the host's names apply.
func (n *Names) User(p *engine.Process, uid uint32) string { return n.name(&n.users, p, uid) }

// Group returns the name of a group id of p, as User does for user ids.
func (n *Names) Group(p *engine.Process, gid uint32) string { return n.name(&n.groups, p, gid) }

func (n *Names) name(f *file, p *engine.Process, id uint32) string {
	if p != nil && !(p.Known.Has(engine.FieldUserNS) && p.NS.User != engine.InitialUserNamespace) {
		if c, _ := p.Container(); c.ID != "" {
			return ""
		}
	}
	return f.name(id, n.Ask)
}
