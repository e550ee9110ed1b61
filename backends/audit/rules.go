package audit

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
)

// rules are a source's rules in the kernel. Each has the key of its owner.
type rules struct {
	control *auditrule.Control
	key     string
	added   [][]byte
	hiding  map[string]bool // rules of others that hide something, as bytes

	fresh     int // of hiding, those that were not there before
	excluding int // rules of the list exclude
}

// queues numbers the sources of this process.
var queues atomic.Uint32

// enabledAudit marks the number in the keys of a source that has to disable audit at its end, as it
// has enabled it, or has found the rules of another one that did.
const enabledAudit = 1 << 31

// name chooses the key.
func (r *rules) name(disables bool) error {
	me, err := owner.Self()
	number := queues.Add(1)
	if disables {
		number |= enabledAudit
	}
	r.key = me.Name(number)
	return err
}

// wanted are a source's rules: for each ABI, one for calls that succeed, and one for those that do
// not return, or whose failure is an event too.
func wanted(o *source.Options, key string) (list []auditrule.Rule) {
	failed, ids := o.Reports(engine.EventExecFailed), o.Reports(engine.EventIDChange)
	always := func(c auditrecord.Call) bool {
		switch c {
		case auditrecord.Exit, auditrecord.ExitGroup:
			return o.ReportsEnds()
		case auditrecord.Exec, auditrecord.ExecAt:
			return failed
		case auditrecord.Clone, auditrecord.Clone3: // the new thread can end it
			return ids
		}
		return false
	}
	succeeded := func(c auditrecord.Call) bool {
		switch c {
		case auditrecord.Exit, auditrecord.ExitGroup:
			return false
		case auditrecord.Clone, auditrecord.Clone3:
			return !ids
		case auditrecord.Exec, auditrecord.ExecAt:
			return !failed
		case auditrecord.SetUID, auditrecord.SetGID, auditrecord.SetSID:
			return ids
		}
		return true // births, by which it is known whose pid it is
	}
	for _, abi := range auditrecord.Native(runtime.GOARCH) {
		for _, of := range []struct {
			calls     func(auditrecord.Call) bool
			succeeded bool
		}{{succeeded, true}, {always, false}} {
			r := auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Always}
			numbers := abi.Numbers(of.calls)
			for _, n := range numbers {
				r.Select(n)
			}
			if len(numbers) == 0 {
				continue
			}
			r.Fields = append(r.Fields, auditrule.Field{Field: auditrule.FieldArch, Value: uint32(abi)})
			if of.succeeded {
				r.Fields = append(r.Fields, auditrule.Field{Field: auditrule.FieldSuccess, Value: 1})
			}
			r.Fields = append(r.Fields, auditrule.Field{Field: auditrule.FieldKey, Text: key})
			list = append(list, r)
		}
	}
	return list
}

// sweep removes the rules of processes that have ended without removing them. enabled is set if a
// source that lives, or has left rules, has enabled audit.
func (r *rules) sweep() (notes []string, enabled bool, err error) {
	list, err := r.control.Rules()
	if err != nil {
		return nil, false, err
	}
	for _, b := range list {
		rule, err := auditrule.Parse(b)
		if err != nil {
			return nil, false, err
		}
		o, number, ok := owner.Parse(rule.Key())
		enabled = enabled || ok && number&enabledAudit != 0
		if ok && o.Gone() {
			if err := r.control.Delete(b); err != nil && !errors.Is(err, unix.ENOENT) {
				notes = append(notes, fmt.Sprintf("a rule that another process has left, %s, was not removed: %v", rule.Key(), err))
			}
		}
	}
	return notes, enabled, nil
}

// lookAtOthers notes which rules of others hide something from this source, and returns what those
// do that were not there when it was called before, and whether some of those are gone. Of the
// rules for system calls the first that fits decides, so that one behind this source's hides
// nothing.
func (r *rules) lookAtOthers() (notes []string, gone bool, err error) {
	list, err := r.control.Rules()
	if err != nil {
		return nil, false, err
	}
	parsed := make([]auditrule.Rule, len(list))
	last := len(list) // behind the last one of this source
	for i, b := range list {
		if parsed[i], err = auditrule.Parse(b); err != nil {
			return nil, false, err
		}
		if parsed[i].Key() == r.key {
			last = i
		}
	}
	known := r.hiding
	r.hiding, r.fresh, r.excluding = make(map[string]bool), 0, 0
	for i := range parsed {
		if parsed[i].List == auditrule.ListExclude {
			r.excluding++
		}
		if parsed[i].List == auditrule.ListExit && i > last {
			continue
		}
		note, err := hides(&parsed[i])
		if err != nil {
			return nil, false, err
		}
		if note == "" {
			continue
		}
		r.hiding[string(list[i])] = true
		if known[string(list[i])] {
			continue
		}
		if r.fresh++; !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for rule := range known {
		gone = gone || !r.hiding[rule]
	}
	return notes, gone, nil
}

// hides says what a rule of others keeps from this source; it is an error if that is all.
func hides(r *auditrule.Rule) (note string, err error) {
	switch {
	case r.List == auditrule.ListTask && r.Action == auditrule.Never && len(r.Fields) == 0:
		return "", fmt.Errorf("the rule -a task,never keeps the kernel from auditing new processes: remove it, as with auditctl -d task,never: %w", errors.ErrUnsupported)
	case r.List == auditrule.ListTask && r.Action == auditrule.Never:
		return "a rule of the list task keeps the kernel from auditing some of the new processes, as long as they live (auditctl -l)", nil
	case r.List == auditrule.ListExclude:
		if some, all := r.Excludes(uint32(auditrecord.Syscall)); all {
			return "", fmt.Errorf("a rule of the list exclude keeps the kernel from making records of system calls: remove it, as with auditctl -d always,exclude -F msgtype=SYSCALL: %w", errors.ErrUnsupported)
		} else if some {
			return "a rule of the list exclude keeps the kernel from making records of some processes, which are missing (auditctl -l)", nil
		}
		if some, _ := r.Excludes(uint32(auditrecord.ConfigChange)); some {
			return "a rule of the list exclude keeps the kernel from telling of changes of rules: those that hide something from then on are not seen (auditctl -l)", nil
		}
		for _, kind := range []auditrecord.Type{auditrecord.Execve, auditrecord.Path} {
			if some, _ := r.Excludes(uint32(kind)); some {
				return "a rule of the list exclude keeps the kernel from making some records: what they have is unknown, and an execveat(2) without its arguments is not told (auditctl -l)", nil
			}
		}
	case r.List == auditrule.ListExit && r.Action == auditrule.Never:
		for _, abi := range auditrecord.Native(runtime.GOARCH) {
			for _, n := range abi.Numbers(func(auditrecord.Call) bool { return true }) {
				if r.Selects(n) {
					return "a rule -a never,exit hides some of the system calls (auditctl -l)", nil
				}
			}
		}
	}
	return "", nil
}

// add adds the rules behind those of others, whose keys so stay on the records that they cause.
func (r *rules) add(list []auditrule.Rule) error {
	for i := range list {
		b := list[i].Bytes()
		switch err := r.control.Add(b); {
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("%w: the kernel has no audit of system calls, CONFIG_AUDITSYSCALL", err)
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: the rules of audit are locked until the next boot, as auditctl -e 2 does", err)
		case err != nil && !errors.Is(err, unix.EEXIST):
			return err
		}
		r.added = append(r.added, b)
	}
	return nil
}

// remove removes what add has added. What others have removed is gone, too.
func (r *rules) remove() error {
	var errs []error
	for _, b := range r.added {
		switch err := r.control.Delete(b); {
		case errors.Is(err, unix.EPERM):
			errs = append(errs, fmt.Errorf("%w: it needs CAP_AUDIT_CONTROL; the next Open of this source removes it, or auditctl -D -k %s", err, r.key))
		case err != nil && !errors.Is(err, unix.ENOENT):
			errs = append(errs, err)
		}
	}
	r.added = nil
	return errors.Join(errs...)
}

// alone reports whether nobody else uses audit: there is no auditd, and no rule.
func (r *rules) alone() bool {
	st, err := r.control.Status()
	list, err2 := r.control.Rules()
	return err == nil && err2 == nil && st.PID == 0 && len(list) == 0
}
