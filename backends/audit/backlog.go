package audit

import (
	"os"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrule"
)

// backlog follows the kernel's count of records that it had no room for: those take no number. The
// count also has those that it did not keep for an auditd that is not there, if it was booted with
// audit=1, or that a running one did not take; this source has got them. Then what it has not got
// is known only if more are missing than have come.
type backlog struct {
	control *auditrule.Control // asked, without waiting
	exact   bool               // no other records are counted
	bound   bool               // something may be lost that is not counted
	gone    bool               // the count can't be asked for any more
	first   uint32             // the count at Open
	told    uint64
	read    uint64 // records that have come since then
	asked   bool
	answer  *auditrule.Status // that came before the socket was last emptied, or nil
	active  bool              // records have come since it was asked
	due     uint64            // when to ask, or to look for the answer; 0 for not
	since   uint64            // when it was last told
	from    uint64            // and the time before
}

// backlogInterval is the time from one question to the next, in ns, while records come.
const backlogInterval = 250_000_000

// commandLine returns what the kernel's command line says of audit: with 1 it is enabled at the
// boot, and the kernel keeps records for an auditd.
func commandLine() (audit string) {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return ""
	}
	for _, w := range strings.Fields(string(b)) {
		if v, ok := strings.CutPrefix(w, "audit="); ok {
			audit = v
		}
	}
	return audit
}

// note notes a record.
func (b *backlog) note(now uint64) {
	b.read++
	b.active = true
	if b.due == 0 && b.control != nil {
		b.due = now + backlogInterval
	}
}

// checkBacklog asks the kernel how many records are missing, or takes its answer.
func (s *Source) checkBacklog() {
	b := &s.backlog
	now := s.now()
	if st := b.answer; st != nil {
		if s.noted <= b.since { // what it counts may be in the socket still
			b.due = now + 1_000_000
			return
		}
		b.answer = nil
		s.tellBacklog(st, now)
	}
	if b.control == nil || b.due == 0 || now < b.due && !(b.asked && s.finishing) {
		return
	}
	if !b.asked {
		if b.control.Ask() != nil {
			s.giveUpBacklog()
			return
		}
		b.asked, b.active, b.due = true, false, now+1_000_000
	}
	st, ok, err := b.control.Answer()
	switch {
	case err != nil: // the privilege was dropped
		s.giveUpBacklog()
		return
	case !ok:
		b.due = now + 1_000_000
		return
	}
	b.asked, b.from, b.since, b.answer = false, b.since, now, &st
	b.due = now + 1_000_000
}

// tellBacklog tells of records that were not made.
func (s *Source) tellBacklog(st *auditrule.Status, now uint64) {
	b := &s.backlog
	if b.due = 0; b.active {
		b.due = now + backlogInterval
	}
	b.exact = b.exact && st.PID == 0
	missing := uint64(st.Lost - b.first)
	if !b.exact {
		got := b.read + uint64(s.drops)
		missing -= min(missing, got)
	}
	if missing > b.told {
		n := missing - b.told
		b.told = missing
		s.lost[engine.LossScratch] += n
		s.gap(engine.Gap{Cause: engine.LossScratch, CPU: engine.AllCPUs, From: b.from, To: now, Count: n})
	}
}

func (s *Source) giveUpBacklog() {
	s.backlog.control.Close()
	s.backlog.control, s.backlog.due, s.backlog.bound, s.backlog.gone = nil, 0, true, true
	s.caps.Notes = append(s.caps.Notes, "what the kernel has no room for is not known without CAP_AUDIT_CONTROL")
}
