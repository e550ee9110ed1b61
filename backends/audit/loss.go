package audit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/source"
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

// gap reports events lost since a time.
func (s *Source) gap(cause engine.Loss, from, count uint64) {
	now := s.now()
	s.loss.lost[cause] += count
	s.loss.at = now
	ev := s.to.Reserve()
	ev.SetGap(engine.Gap{Cause: cause, CPU: engine.AllCPUs, From: from - min(from, s.wall.slack), To: now, Count: count})
	s.to.Insert(ev)
}

// checkDrops checks whether the socket has dropped messages. Their numbers are missing before the
// next one that is received.
func (s *Source) checkDrops() {
	if n, l := nlsocket.Drops(s.socket.fd), &s.loss; n != l.drops {
		l.drops, l.dropped, l.pending = n, s.now(), true
		l.at = l.dropped
	}
}

// doubtful reports whether an event after the begin of a call may be lost.
func (s *Source) doubtful(e *event) bool { return s.loss.at >= e.stamp || s.queue.hasHoles() }

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

// checkBacklog uses the kernel's answer to the last question, and asks the next one.
func (s *Source) checkBacklog() {
	b, now := &s.loss.backlog, s.now()
	if b.due == 0 || now < b.due {
		return
	}
	b.due = 0
	st, ok, err := b.control.Answer()
	if err == nil {
		err = b.control.Ask()
	}
	if err != nil || ok && st.PID != 0 {
		s.loss.bound, s.loss.at = true, now
		b.close()
	} else if ok {
		s.countBacklog(st.Lost, now)
	}
}

func (s *Source) countBacklog(count uint32, now uint64) {
	b := &s.loss.backlog
	if n := count - b.count; n > 0 {
		s.gap(engine.LossScratch, b.since, uint64(n))
	}
	b.count, b.since = count, now
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

// react handles the changes of others. After an error no more records come.
func (s *Source) react() error {
	c := s.changed
	s.changed = changes{}
	s.loss.bound = s.loss.bound || c.rules || c.removed
	if c.disabled {
		return errors.New("audit was disabled by another process, so that no more comes: enable it, as with auditctl -e 1, and open the source again")
	}
	if c.removed {
		s.gap(engine.LossUnseen, s.last, 0)
		if err := s.rules.add(); err != nil {
			return fmt.Errorf("another process has removed the rules of this source: %s", source.OneLine(err))
		}
	}
	return nil
}
