package procfs

import (
	"bytes"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// parseStatus sets ids and capability sets in t from the text of /proc/PID/status, and returns the
// fields that it found. The ids and the five sets are each known as a whole or not at all.
func parseStatus(b []byte, t *engine.Task) (found engine.Fields) {
	var caps engine.Capabilities
	var have uint8
	for len(b) > 0 {
		var line []byte
		line, b, _ = proctext.Cut(b, '\n')
		// The lines that are parsed begin with U, G or C: most others are skipped here.
		if len(line) < 5 || line[0] != 'U' && line[0] != 'G' && line[0] != 'C' {
			continue
		}
		switch name, value, _ := proctext.Cut(line, '\t'); string(name) {
		case "Uid:":
			if r, e, s, ok := parseIDs(value); ok {
				t.Cred.UID, t.Cred.EUID, t.Cred.SUID = r, e, s
				found |= engine.FieldUIDs.Set() | engine.FieldSUID.Set()
			}
		case "Gid:":
			if r, e, s, ok := parseIDs(value); ok {
				t.Cred.GID, t.Cred.EGID, t.Cred.SGID = r, e, s
				found |= engine.FieldGIDs.Set() | engine.FieldSGID.Set()
			}
		case "CapInh:":
			have |= parseCap(value, &caps.Inheritable, 1<<0)
		case "CapPrm:":
			have |= parseCap(value, &caps.Permitted, 1<<1)
		case "CapEff:":
			have |= parseCap(value, &caps.Effective, 1<<2)
		case "CapBnd:":
			have |= parseCap(value, &caps.Bounding, 1<<3)
		case "CapAmb:": // Linux 4.3 and later
			have |= parseCap(value, &caps.Ambient, 1<<4)
		}
		if have == 1<<5-1 {
			t.Caps = caps
			return found | engine.FieldCaps.Set()
		}
	}
	return found
}

// parseIDs parses real, effective, saved and file system id.
func parseIDs(b []byte) (real, effective, saved uint32, ok bool) {
	var id [3]uint32
	for i := range id {
		var word []byte
		word, b, _ = proctext.Cut(b, '\t')
		if id[i], ok = proctext.Uint32(word); !ok {
			return 0, 0, 0, false
		}
	}
	return id[0], id[1], id[2], true
}

func parseCap(b []byte, set *uint64, bit uint8) uint8 {
	n, ok := proctext.Hex64(bytes.TrimSpace(b))
	if !ok {
		return 0
	}
	*set = n
	return bit
}
