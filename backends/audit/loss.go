package audit

import (
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
)

// loss counts lost events.
type loss struct {
	lost    [engine.NumLosses]uint64
	bound   bool   // something may be lost that is not counted
	at      uint64 // when a loss was last seen
	drops   uint32 // of the socket
	dropped uint64 // when drops was last seen to grow
	pending bool   // no event since then has shown the dropped ones
	backlog backlog
}

// backlog follows the kernel's count of dropped records, which have no serial number. The kernel
// also counts records that it did not keep because auditd is missing (with audit=1 at boot), and
// records that auditd did not read. In these cases the count is not used, and Stats are a lower
// bound.
type backlog struct {
	control *auditrule.Control // asked without waiting, nil if the count is not used
	count   uint32
	since   uint64 // when the count was read
	due     uint64 // when to ask, 0 if no record has come since the last question
}

// arm schedules a question to the kernel after a record has arrived.
func (b *backlog) arm(now uint64) {
	const interval = 250_000_000 // ns
	if b.due == 0 && b.control != nil {
		b.due = now + interval
	}
}

func (b *backlog) close() {
	if b.control != nil {
		b.control.Close()
	}
	b.control, b.due = nil, 0
}

// changes has the changes that other programs made since the last Populate.
type changes struct {
	disabled bool // audit itself
	removed  bool // rules of this source
	rules    bool // other rules, which may hide something
}

// add adds a record about a change of audit, unless the change failed.
func (c *changes) add(r *auditrecord.Record, key string) {
	text := strings.ReplaceAll(string(r.Body), `"`, "") + " " // older kernels quote op
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("res=0 "):
	case has("op=remove_rule key=" + key + " "):
		c.removed = true
	case has("op=remove_rule "), has("op=add_rule "):
		c.rules = c.rules || !has("key=quark_")
	case has("audit_enabled=0 "):
		c.disabled = true
	}
}
