package audit

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
)

// configChange notes what others do to the source: the removal of its rules, changes of rules that
// may hide something from it, and the end of audit. What was tried in vain changes nothing.
func (s *Source) configChange(r *auditrecord.Record) {
	var op string
	ours, off, done, exclude := false, false, true, false
	for m := r.Members(); ; {
		name, v, ok := m.Next()
		if !ok {
			break
		}
		switch string(name) {
		case "op": // in quotes in older kernels
			op = string(bytes.Trim(v, `"`))
		case "key":
			key, ok := auditrecord.AppendText(nil, v)
			ours = ok && string(key) == s.rules.key
		case "audit_enabled":
			off = string(v) == "0"
		case "list":
			exclude = string(v) == strconv.Itoa(auditrule.ListExclude)
		case "res":
			done = string(v) != "0"
		}
	}
	switch {
	case !done:
	case op == "remove_rule" && ours:
		s.restore = true
	case op == "add_rule" || op == "remove_rule": // with any key
		s.foreign = true
		if op == "remove_rule" {
			s.revealed = s.revealed || exclude
		} else if !ours {
			s.added++
		}
	case off:
		s.disabled = true
	}
}

// react does what the changes of others make necessary. It is an error if no more can come.
func (s *Source) react() error {
	if s.restore {
		s.restoreRules()
	}
	if s.foreign || s.looked != 0 && s.now() >= s.looked+s.lookEvery {
		if err := s.checkForeign(); err != nil {
			return err
		}
		s.foreign, s.revealed, s.added = false, false, 0
	}
	if s.disabled {
		return errors.New("audit was disabled by another process, so that no more comes: enable it, as with auditctl -e 1, and open the source again")
	}
	return nil
}

// restoreRules adds the rules again that somebody has removed. What happened meanwhile is lost.
func (s *Source) restoreRules() {
	s.restore = false
	list := wanted(&s.shared, s.rules.key)
	s.rules.added = nil
	err := s.rules.add(list)
	if err == nil && s.rules.enabled {
		err = s.rules.addNote()
	}
	if err != nil {
		s.caps.Notes = append(s.caps.Notes, "rules that others have removed were not added again: "+source.OneLine(err))
	}
	s.unseen(0)
}

// checkForeign looks whether rules that others have added hide something, or hide it no more. What
// happens in between is missing, and nothing counts it. A rule can hide that it was added, too.
func (s *Source) checkForeign() error {
	before, excluding := s.looked, s.rules.excluding
	notes, gone, err := s.rules.lookAtOthers()
	s.looked = s.now()
	hidden := s.rules.fresh > s.added || s.revealed && s.rules.excluding >= excluding
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		if s.hiddenFrom == 0 {
			s.hiddenFrom = before
		}
		return err
	case err != nil: // the privilege was dropped
		s.looked, hidden = 0, false
		notes = []string{"rules of others, which may hide something, can't be looked at: " + source.OneLine(err)}
		if !s.foreign {
			s.caps.Notes, s.backlog.bound = append(s.caps.Notes, notes...), true
			return nil
		}
	case len(notes) == 0 && !hidden && !(gone && s.hiddenFrom != 0):
		return nil
	}
	s.caps.Notes = append(s.caps.Notes, notes...)
	if hidden && s.hiddenFrom == 0 {
		s.hiddenFrom = before
	}
	until := s.unseen(s.hiddenFrom)
	if s.hiddenFrom = 0; len(s.rules.hiding) > 0 {
		s.hiddenFrom = until
	}
	return nil
}

// unseen tells of events that may be missing since a time, or with 0 since the socket was empty,
// and returns until when.
func (s *Source) unseen(from uint64) (until uint64) {
	if from == 0 {
		from = s.idle - min(s.idle, s.hold)
	}
	until = s.now()
	s.gap(engine.Gap{Cause: engine.LossUnseen, CPU: engine.AllCPUs, From: from, To: until})
	s.backlog.bound = true
	return until
}
