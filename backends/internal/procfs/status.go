package procfs

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// parseStatus sets the fields of want that are in the text of /proc/PID/status: ids, capability
// sets, pid namespace and confinement. The ids and the five sets are each known as a whole or not
// at all. It reports whether the process is in a pid namespace below the initial one, which must
// then be read. It ignores a text with another pid: when a thread takes its leader's place at an
// exec, the leader shows the thread's text.
func parseStatus(b []byte, pid uint32, want engine.Fields, t *engine.Task) (below bool) {
	var caps engine.Capabilities
	have := 0 // of the sets
	cred := &t.Cred
lines:
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		// The parsed lines begin with U, G, N, C or Se: most others are skipped here.
		if len(line) < 5 || line[0] != 'U' && line[0] != 'G' && line[0] != 'N' && line[0] != 'C' && (line[0] != 'S' || line[1] != 'e') {
			continue
		}
		var set *uint64
		name, value, _ := proctext.Cut(line, '\t')
		switch string(name) {
		case "Uid:":
			t.Known |= parseIDs(value, want, engine.FieldUIDs, engine.FieldSUID, [3]*uint32{&cred.UID, &cred.EUID, &cred.SUID})
		case "Gid:":
			t.Known |= parseIDs(value, want, engine.FieldGIDs, engine.FieldSGID, [3]*uint32{&cred.GID, &cred.EGID, &cred.SGID})
		case "NSpid:": // from the initial namespace down to the process's own
			outer, _, _ := proctext.Cut(value, '\t')
			// The pid is 0 while the process is being reaped.
			if n, ok := proctext.Uint32(outer); ok && n != 0 && n != pid {
				t.Known &^= want & fieldsStatus
				return false
			}
			tab := bytes.LastIndexByte(value, '\t')
			if n, ok := proctext.Uint32(value[tab+1:]); ok && n != 0 && want.Has(engine.FieldPIDNS) {
				if t.NSPID, below = n, tab >= 0; !below {
					t.NS.PID = proctext.InitialPIDNamespace
					t.Known |= engine.FieldPIDNS.Set()
				}
			}
		case "CapInh:":
			set = &caps.Inheritable
		case "CapPrm:":
			set = &caps.Permitted
		case "CapEff:":
			set = &caps.Effective
		case "CapBnd:":
			set = &caps.Bounding
		case "CapAmb:":
			set = &caps.Ambient
		case "NoNewPrivs:":
			t.Known |= parseNumber(value, want&engine.FieldNoNewPrivs.Set(), &t.NoNewPrivs)
		case "Seccomp:": // follows all others
			t.Known |= parseNumber(value, want&engine.FieldSeccomp.Set(), &t.Seccomp)
			t.Seccomp = min(t.Seccomp, unix.SECCOMP_MODE_FILTER)
			break lines
		}
		if set == nil {
			continue
		}
		var ok bool
		if *set, ok = proctext.Uint64(value, 16); !ok {
			return below
		}
		have++
	}
	if have == 5 && want.Has(engine.FieldCaps) {
		t.Caps = caps
		t.Known |= engine.FieldCaps.Set()
	}
	return below
}

// parseNumber sets to to the number in b. It returns wanted, or 0 if b is no number.
func parseNumber(b []byte, wanted engine.Fields, to *uint32) engine.Fields {
	n, ok := proctext.Uint32(b)
	if !ok || wanted == 0 {
		return 0
	}
	*to = n
	return wanted
}

// parseIDs parses real, effective, saved and file system id into ids. two are the fields of the
// first two ids, third is the field of the saved id. It returns the fields that it has set.
func parseIDs(b []byte, want engine.Fields, two, third engine.Field, ids [3]*uint32) (set engine.Fields) {
	var id [3]uint32
	for i := range id {
		var word []byte
		var ok bool
		word, b, _ = proctext.Cut(b, '\t')
		if id[i], ok = proctext.Uint32(word); !ok {
			return 0
		}
	}
	if want.Has(two) {
		*ids[0], *ids[1] = id[0], id[1]
	}
	if want.Has(third) {
		*ids[2] = id[2]
	}
	return want & (two.Set() | third.Set())
}
