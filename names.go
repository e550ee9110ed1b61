package quark

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/namefile"
)

// Names has the names of this host's users and groups, as /etc/passwd and /etc/group have them. It
// may be used from several goroutines.
type Names struct {
	users, groups namefile.File
	// Ask, if not nil, returns the name of an id that the file of "passwd" or "group" does not
	// have. It is called once for each, in the background. Set it before the first use.
	Ask func(database, id string) string
}

// NewNames reads the two files. They are read again when a name is asked for and they have changed,
// at most once a second, as long as they can be read.
func NewNames() *Names { return newNames("/etc/passwd", "/etc/group") }

func newNames(passwd, group string) *Names {
	n := new(Names)
	n.users.Path, n.groups.Path = passwd, group
	n.users.Name(0, nil)
	n.groups.Name(0, nil)
	return n
}

// User returns the name of a user id of p, "" if there is none. A nil p is one of the host.
//
// A container's ids belong to users of its own, which have no names here, unless it has a user
// namespace: then the host assigned the ids, and has names for them.
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
