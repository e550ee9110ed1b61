package auditrecord

// Call is a system call that creates, changes or ends processes, independent of the architecture.
type Call uint8

// The calls.
const (
	NoCall Call = iota
	Exec
	ExecAt
	Fork // also vfork
	Clone
	Clone3
	ExitGroup
	SetSID
)

// ABI is a set of system calls, by its number in linux/audit.h.
type ABI uint32

// The ABIs of the architectures that quark runs on.
const (
	ABIAMD64 ABI = 0xc000003e
	ABI386   ABI = 0x40000003
	ABIARM64 ABI = 0xc00000b7
	ABIARM   ABI = 0x40000028
)

// Native returns the ABIs of a GOARCH.
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
	ABIAMD64: {59: Exec, 322: ExecAt, 57: Fork, 58: Fork, 56: Clone, 435: Clone3, 231: ExitGroup, 112: SetSID},
	ABIARM64: {221: Exec, 281: ExecAt, 220: Clone, 435: Clone3, 94: ExitGroup, 157: SetSID},
	ABI386:   {11: Exec, 358: ExecAt, 2: Fork, 190: Fork, 120: Clone, 435: Clone3, 252: ExitGroup, 66: SetSID},
	ABIARM:   {11: Exec, 387: ExecAt, 2: Fork, 190: Fork, 120: Clone, 435: Clone3, 248: ExitGroup, 66: SetSID},
}

// Call returns the call with a number.
func (a ABI) Call(number uint32) Call { return numbers[a][number] }

// Calls returns the calls by number.
func (a ABI) Calls() map[uint32]Call { return numbers[a] }
