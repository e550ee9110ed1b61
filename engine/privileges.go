package engine

import "strings"

// Privileges are the ways in which a file gives ids or capabilities to who executes it.
type Privileges uint8

const (
	BySetUID   Privileges = 1 << iota // its set-user-ID bit changed the effective user id
	BySetGID                          // its set-group-ID bit changed the effective group id
	ByFileCaps                        // it has capabilities, of which the process got some
)

var privilegeNames = [...]string{"set_uid", "set_gid", "file_caps"}

// String joins the names with ",".
func (v Privileges) String() string {
	var names []string
	for i, name := range privilegeNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// InitialUserNamespace is the NS.User of processes in the first user namespace (linux/proc_ns.h).
const InitialUserNamespace = 0xEFFFFFFD

// derivePrivileges tells what the file of an EXEC that was just applied gave p, which had other ids
// before. What can't be told for certain is unknown.
func (p *process) derivePrivileges(before *Credentials, known Fields) {
	const needed = Fields(1<<FieldExeFile | 1<<FieldUIDs | 1<<FieldGIDs | 1<<FieldCaps | 1<<FieldUserNS)
	if p.Known&^p.Cached&needed != needed {
		return
	}
	x, now := &p.ExeFile, &p.Cred
	uid, uidTold := p.setID(x.Mode&ModeSetUID != 0, known.Has(FieldUIDs), before.EUID, now.EUID, x.UID)
	// Without the group's permission to execute the bit has another meaning.
	gid, gidTold := p.setID(x.Mode&ModeSetGID != 0 && x.Mode&0o010 != 0, known.Has(FieldGIDs), before.EGID, now.EGID, x.GID)
	caps, capsTold := p.fileCaps()
	if !uidTold || !gidTold || !capsTold {
		return
	}
	p.Known |= FieldPrivileges.Set()
	p.Privileges = 0
	if uid {
		p.Privileges |= BySetUID
	}
	if gid {
		p.Privileges |= BySetGID
	}
	if caps {
		p.Privileges |= ByFileCaps
	}
}

// setID reports whether a set-id bit made the effective id another. On a mount with mapped ids that
// is not the owner; and some sources report the change before the EXEC, as an ID_CHANGE.
func (p *process) setID(bit, known bool, before, now, owner uint32) (changed, told bool) {
	switch {
	case !bit:
		return false, true
	case !known:
		return false, false
	case before != now:
		return true, now == owner
	}
	return false, now != owner || !p.idsSet
}

// fileCaps reports whether permitted capabilities are the file's: neither ambient, nor of root,
// which gets all that the bounding and the inheritable set have. In another user namespace root has
// another id, and with no_new_privs fewer capabilities.
func (p *process) fileCaps() (some, told bool) {
	c := &p.Caps
	switch {
	case c.Permitted&^c.Ambient == 0:
		return false, true
	case p.NS.User != InitialUserNamespace:
		return false, false
	case p.Cred.UID == 0 || p.Cred.EUID == 0:
		return false, c.Permitted == c.Bounding|c.Inheritable
	}
	return true, true
}
