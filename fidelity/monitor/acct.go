package monitor

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// acctRecord is the size of struct acct_v3 of acct(5).
const acctRecord = 64

// acct returns process accounting: at the end of each process the kernel appends a record to a
// file. The kernel counts the bytes of the record as written by the process.
func acct() *Monitor {
	return &Monitor{
		Name: "acct", Silent: true, Accounting: true, Apart: true, Record: acctRecord,
		Table: table(map[engine.Kind]string{engine.KindExit: "a record of acct(5)"}, []claim{
			{engine.FieldPPID, atExit, "ac_ppid"},
			{engine.FieldUIDs, atExit, "ac_uid, the real one"},
			{engine.FieldGIDs, atExit, "ac_gid, the real one"},
			{engine.FieldComm, atExit, "ac_comm"},
			{engine.FieldExit, atExit, "ac_exitcode, the leader's"},
		}, "ac_btime is in seconds: the time is when the record was read"),
		Foreign: score.Tolerance{NoStamps: true, Late: uint64(10 * time.Second), As: realOnly},
		Decoder: func() Decoder { return acctDecoder{} },
	}
}

// accountingElsewhere returns an error if the kernel already accounts to one of the usual files.
func accountingElsewhere() error {
	for _, file := range []string{"/var/log/account/pacct", "/var/account/pacct", "/var/log/pacct"} {
		before, err := os.Stat(file)
		if err != nil {
			continue
		}
		if _, _, err := scenario.Brief(0); err != nil {
			return err
		}
		if after, err := os.Stat(file); err == nil && after.Size() != before.Size() {
			return fmt.Errorf("process accounting already writes to %s: switch it off (accton off)", file)
		}
	}
	return nil
}

type acctDecoder struct{}

func (acctDecoder) Decode(b []byte, at uint64, to *Output) error {
	if len(b) != acctRecord {
		return fmt.Errorf("record of %d bytes", len(b))
	}
	if v := b[1] & 0x0f; v != 3 {
		return fmt.Errorf("a record of version %d, not 3: the kernel lacks CONFIG_BSD_PROCESS_ACCT_V3", v)
	}
	word := binary.NativeEndian.Uint32
	name := b[48:64]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	ev, p := to.add(engine.KindExit, word(b[16:]), at)
	setParent(p, word(b[20:]))
	setUser(p, word(b[8:]), word(b[8:]))
	p.Known = p.Known.With(engine.FieldGIDs)
	p.Cred.GID, p.Cred.EGID = word(b[12:]), word(b[12:])
	setComm(p, string(name))
	setExit(ev, int32(word(b[4:])))
	return nil
}
