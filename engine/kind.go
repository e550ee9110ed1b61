package engine

import "strings"

// Kind is the kind of a raw event.
type Kind uint8

func (k Kind) String() string {
	if int(k) < NumKinds {
		return k.Events().String()
	}
	return "UNKNOWN"
}

// Events returns the set with k alone, or the empty set if k is no valid kind.
func (k Kind) Events() Events {
	if int(k) < NumKinds {
		return kindEvents[k]
	}
	return 0
}

// Events is the set of kinds that one delivered event reports. The bits have the values of
// elastic/quark's manual; kinds that elastic/quark lacks follow.
type Events uint32

// Has reports whether e has one of the kinds in any.
func (e Events) Has(any Events) bool { return e&any != 0 }

// Names appends the names of the set's members to dst, lowest bit first.
func (e Events) Names(dst []string) []string {
	for _, n := range eventNames {
		if e&n.bit != 0 {
			dst = append(dst, n.name)
		}
	}
	return dst
}

// String joins the names with "+", lowest bit first; the empty set is "".
func (e Events) String() string { return strings.Join(e.Names(make([]string, 0, 8)), "+") }

// IDChange is the set of ids that an ID_CHANGE event reports as changed.
type IDChange uint8

const (
	ChangedSID IDChange = 1 << 0 // setsid
	ChangedUID IDChange = 1 << 1 // setuid, setreuid, setresuid
	ChangedGID IDChange = 1 << 2 // setgid, setregid, setresgid
	// ChangedPGID is setpgid(2), also by the parent. setsid(2) changes the process group too,
	// but has only ChangedSID.
	ChangedPGID IDChange = 1 << 3
)

var idNames = [...]string{"SETSID", "SETUID", "SETGID", "SETPGID"}

func (c IDChange) String() string {
	var names []string
	for i, n := range idNames {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}
