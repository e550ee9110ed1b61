package auditrecord

// Call is a system call that makes, changes or ends processes, the same for all architectures.
type Call uint8

// The calls. SetUID and SetGID are those that set real, effective or saved ids.
const (
	NoCall Call = iota
	Exec
	ExecAt
	Fork // also vfork
	Clone
	Clone3
	Exit
	ExitGroup
	SetUID
	SetGID
	SetSID
)

// ABI is a set of system calls, by the number that linux/audit.h has for it.
type ABI uint32

// The ABIs of the architectures that quark runs on.
const (
	ABIAMD64 ABI = 0xc000003e
	ABI386   ABI = 0x40000003
	ABIARM64 ABI = 0xc00000b7
	ABIARM   ABI = 0x40000028
)

// Native returns the ABIs of an architecture, by its name in Go.
func Native(arch string) []ABI {
	switch arch {
	case "amd64":
		return []ABI{ABIAMD64, ABI386}
	case "arm64":
		return []ABI{ABIARM64, ABIARM}
	}
	return nil
}

// numbers are the numbers of the calls.
var numbers = map[ABI]map[uint32]Call{
	ABIAMD64: {
		59: Exec, 322: ExecAt, 57: Fork, 58: Fork, 56: Clone, 435: Clone3, 60: Exit, 231: ExitGroup,
		105: SetUID, 113: SetUID, 117: SetUID, 106: SetGID, 114: SetGID, 119: SetGID, 112: SetSID,
	},
	ABIARM64: {
		221: Exec, 281: ExecAt, 220: Clone, 435: Clone3, 93: Exit, 94: ExitGroup,
		146: SetUID, 145: SetUID, 147: SetUID, 144: SetGID, 143: SetGID, 149: SetGID, 157: SetSID,
	},
	ABI386: {
		11: Exec, 358: ExecAt, 2: Fork, 190: Fork, 120: Clone, 435: Clone3, 1: Exit, 252: ExitGroup,
		23: SetUID, 70: SetUID, 164: SetUID, 203: SetUID, 208: SetUID, 213: SetUID,
		46: SetGID, 71: SetGID, 170: SetGID, 204: SetGID, 210: SetGID, 214: SetGID, 66: SetSID,
	},
	ABIARM: {
		11: Exec, 387: ExecAt, 2: Fork, 190: Fork, 120: Clone, 435: Clone3, 1: Exit, 248: ExitGroup,
		23: SetUID, 70: SetUID, 164: SetUID, 203: SetUID, 208: SetUID, 213: SetUID,
		46: SetGID, 71: SetGID, 170: SetGID, 204: SetGID, 210: SetGID, 214: SetGID, 66: SetSID,
	},
}

// Call returns what a number stands for.
func (a ABI) Call(number uint32) Call { return numbers[a][number] }

// Numbers returns the numbers of the calls that are wanted, in no order.
func (a ABI) Numbers(wanted func(Call) bool) (list []uint32) {
	for n, c := range numbers[a] {
		if wanted(c) {
			list = append(list, n)
		}
	}
	return list
}
