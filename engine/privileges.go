package engine

// Privileges are the ways in which a file gives ids or capabilities to the process that executes
// it.
type Privileges uint8

const (
	BySetUID   Privileges = 1 << iota // its set-user-ID bit changed the effective user id
	BySetGID                          // its set-group-ID bit changed the effective group id
	ByFileCaps                        // file capabilities gave it some capabilities
)

var privilegeNames = [...]string{"set_uid", "set_gid", "file_caps"}

// String joins the names with ",".
func (v Privileges) String() string {
	return string(v.appendNames(nil, ",", 0))
}

// appendNames appends the names with sep between them. If quote is not 0 and there are names, it is
// put around all of them.
func (v Privileges) appendNames(b []byte, sep string, quote byte) []byte {
	if v != 0 && quote != 0 {
		b = append(b, quote)
	}
	first := true
	for i, name := range privilegeNames {
		if v&(1<<i) == 0 {
			continue
		}
		if !first {
			b = append(b, sep...)
		}
		b, first = append(b, name...), false
	}
	if v != 0 && quote != 0 {
		b = append(b, quote)
	}
	return b
}

// InitialUserNamespace is the NS.User of processes in the first user namespace (linux/proc_ns.h).
const InitialUserNamespace = 0xEFFFFFFD

// derivePrivileges derives the privileges that the file gave p. r is the EXEC, already applied.
// Privileges are unknown if r and the ids before it do not decide them.
func (p *process) derivePrivileges(r *RawEvent) {
	const needed = Fields(1<<FieldExeFile | 1<<FieldUIDs | 1<<FieldGIDs | 1<<FieldCaps | 1<<FieldUserNS)
	before := &r.Before
	if !before.Known || p.Known&^p.Cached&needed != needed {
		return
	}
	mode, now := p.ExeFile.Mode, &p.Cred
	// With no_new_privs, for example, the kernel sets both effective ids back to the real ones.
	lowered := now.EUID == now.UID && now.EGID == now.GID
	uid, uidCertain := setID(mode&ModeSetUID != 0, before.EUID != now.EUID, lowered)
	// Without the group's execute permission the set-group-ID bit has another meaning.
	gid, gidCertain := setID(mode&ModeSetGID != 0 && mode&0o010 != 0, before.EGID != now.EGID, lowered)
	caps, capsCertain := p.fileCaps(before.EUID)
	if !uidCertain || !gidCertain || !capsCertain {
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

// setID reports whether the set-id bit changed the effective id. The result is uncertain if the
// kernel may have lowered the id, or if it changed without the bit: by another file, as with an
// interpreter of binfmt_misc.
func setID(bit, changed, lowered bool) (by, certain bool) {
	if changed && lowered {
		return false, !bit
	}
	return changed, bit || !changed
}

// fileCaps reports whether some permitted capabilities come from the file. Ambient capabilities do
// not. If root runs the exec, it gets the whole bounding and inheritable sets without the file, and
// the kernel may then change its ids. In another user namespace root has another id, and with
// no_new_privs fewer capabilities.
func (p *process) fileCaps(before uint32) (some, certain bool) {
	c := &p.Caps
	switch {
	case c.Permitted&^c.Ambient == 0:
		return false, true
	case p.NS.User != InitialUserNamespace:
		return false, false
	case p.Cred.UID == 0 || p.Cred.EUID == 0:
		return false, c.Permitted == c.Bounding|c.Inheritable
	}
	return true, before != 0 && p.ExeFile.Mode&ModeSetUID == 0
}
