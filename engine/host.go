package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Host is the machine that made the events. Unknown members are empty.
type Host struct {
	Name      string // host name
	MachineID string // as in machine-id(5)
	BootID    string // /proc/sys/kernel/random/boot_id, random for each boot
	Kernel    string // release
	Arch      string // as in GOARCH
}

// AppendJSON appends h to b as one JSON object, without unknown members.
func (h *Host) AppendJSON(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.textIf(h.Name != "", "hostname", h.Name)
	o.textIf(h.MachineID != "", "machine_id", h.MachineID)
	o.textIf(h.BootID != "", "boot_id", h.BootID)
	o.textIf(h.Kernel != "", "kernel", h.Kernel)
	o.textIf(h.Arch != "", "arch", h.Arch)
	return append(o.b, '}')
}

// EntityID returns a name of the process that never changes and is the same with every backend and
// in a replay. No other process, on any host and after any boot, has the same name, unless its pid
// is reused within [ProcStartUnit] of its start. The name is the first 32 hexadecimal digits of the
// SHA-256 of "BOOT_ID PID START". START is the start time in ProcStartUnit, field 22 of
// /proc/PID/stat. The name is unknown if one of the three is unknown.
func (p *Process) EntityID(h *Host) (id string, known bool) {
	b := p.AppendEntityID(nil, h)
	return string(b), len(b) > 0
}

// AppendEntityID appends the text of EntityID to b.
func (p *Process) AppendEntityID(b []byte, h *Host) []byte {
	who, known := p.Identity()
	if !known || h.BootID == "" {
		return b
	}
	return who.appendEntityID(b, h)
}

func (id Identity) appendEntityID(b []byte, h *Host) []byte {
	text := append(make([]byte, 0, 80), h.BootID...)
	text = strconv.AppendUint(append(text, ' '), uint64(id.PID), 10)
	text = strconv.AppendUint(append(text, ' '), id.Start/ProcStartUnit, 10)
	sum := sha256.Sum256(text)
	return hex.AppendEncode(b, sum[:16])
}
