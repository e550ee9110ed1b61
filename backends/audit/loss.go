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

// backlog follows the kernel's count of records that it had no room for: those take no number. The
// count also includes records that the kernel did not keep for a missing auditd, if it was booted
// with audit=1, and records that a running auditd did not read. Then the count is not used, and
// Stats are a lower bound.
type backlog struct {
	control *auditrule.Control // asked without waiting, nil if the count is not used
	count   uint32
	since   uint64 // when the count was read
	due     uint64 // when to ask, 0 if no record has come since the last question
}

// arm schedules a question to the kernel, because a record has come.
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

// changes are the changes by others since the last Populate.
type changes struct {
	disabled bool // audit itself
	removed  bool // rules of this source
	rules    bool // other rules, which may hide something
}

// add adds a record of a change of audit. It skips failed attempts.
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
