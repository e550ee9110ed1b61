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
	// enabled is set if a source has enabled audit, this one or another: the note was seen.
	enabled bool
	hiding  map[string]bool // rules of others that hide something, as bytes

	fresh     int // of hiding, those that were not there before
	excluding int // rules of the list exclude
}

// queues numbers the sources of this process.
var queues atomic.Uint32

// noteKey is the key of the note: a rule about no system call, which says that a source has enabled
// audit. It is there from before that until audit is disabled again or left to others, whoever is
// killed meanwhile, and is no source's own: the last one to end removes it.
const noteKey = "quark_has_enabled_audit"

func note() []byte {
	return (&auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Always, Fields: []auditrule.Field{
		{Field: auditrule.FieldArch, Value: uint32(auditrecord.Native(runtime.GOARCH)[0])}, {Field: auditrule.FieldKey, Text: noteKey},
	}}).Bytes()
}

// name chooses the key.
func (r *rules) name() error {
	me, err := owner.Self()
	r.key = me.Name(queues.Add(1))
	return err
}

// enable enables audit. The note comes first.
func (r *rules) enable() error {
	if err := r.addNote(); err != nil {
		return err
	}
	r.enabled = true
	return r.control.Enable(auditrule.On)
}

func (r *rules) addNote() error {
	if err := r.control.Add(note()); err != nil && !errors.Is(err, unix.EEXIST) {
		return explained(err)
	}
	return nil
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

// sweep removes the rules of processes that have ended without removing them.
func (r *rules) sweep() (notes []string, err error) {
	list, err := r.control.Rules()
	if err != nil {
		return nil, err
	}
	for _, b := range list {
		rule, err := auditrule.Parse(b)
		if err != nil {
			return nil, err
		}
		if o, _, ok := owner.Parse(rule.Key()); ok && o.Gone() {
			if err := r.control.Delete(b); err != nil && !errors.Is(err, unix.ENOENT) {
				notes = append(notes, fmt.Sprintf("a rule that another process has left, %s, was not removed: %v", rule.Key(), err))
			}
		}
	}
	return notes, nil
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
		switch parsed[i].Key() {
		case r.key:
			last = i
		case noteKey:
			r.enabled = true
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
		if err := r.control.Add(b); err != nil && !errors.Is(err, unix.EEXIST) {
			return explained(err)
		}
		r.added = append(r.added, b)
	}
	return nil
}

// explained is an error of adding a rule.
func explained(err error) error {
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the kernel has no audit of system calls, CONFIG_AUDITSYSCALL", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the rules of audit are locked until the next boot, as auditctl -e 2 does", err)
	}
	return err
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

// disable disables audit if a source has enabled it and nobody else uses it: there is no auditd and
// no rule. If others do that are no sources, it is theirs from now on.
func (r *rules) disable() error {
	_, err := r.sweep()
	st, err2 := r.control.Status()
	list, err3 := r.control.Rules()
	if err != nil || err2 != nil || err3 != nil {
		return nil // the privilege was dropped, as removing the rules says
	}
	others, sources, noted := st.PID != 0, false, false
	for _, b := range list {
		rule, err := auditrule.Parse(b)
		_, _, ok := owner.Parse(rule.Key())
		switch {
		case err == nil && rule.Key() == noteKey:
			noted = true
		case ok:
			sources = true
		default:
			others = true
		}
	}
	if sources || !noted && !r.enabled {
		return nil
	}
	if !others {
		if err := r.control.Enable(auditrule.Off); err != nil {
			return err
		}
	}
	if err := r.control.Delete(note()); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
