package audit

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

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
// next received number.
func (s *Source) checkDrops() {
	if n, l := nlsocket.Drops(s.socket.fd), &s.loss; n != l.drops {
		l.drops, l.dropped, l.pending = n, s.now(), true
		l.at = l.dropped
	}
}

// doubtful reports whether a later event than the start of a call may be lost.
func (s *Source) doubtful(e *event) bool { return s.loss.at >= e.stamp || s.queue.hasHoles() }

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

// handleChanges handles changes by other programs to the audit configuration. After an error the
// kernel sends no more records.
func (s *Source) handleChanges() error {
	c := s.changed
	s.changed = changes{}
	s.loss.bound = s.loss.bound || c.rules || c.removed
	if c.disabled {
		return errors.New("another process has disabled audit: enable it with auditctl -e 1, and open the source again")
	}
	if c.removed {
		s.gap(engine.LossUnseen, s.last, 0)
		if err := s.rules.add(); err != nil {
			return fmt.Errorf("another process has removed the rules of this source: %s", source.OneLine(err))
		}
	}
	return nil
}
