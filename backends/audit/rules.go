package audit

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
)

// rules are a source's rules in the kernel. Each has the source's key.
type rules struct {
	control *auditrule.Control
	key     string
	added   [][]byte
	enabled bool // by this source
}

// queues numbers the sources of this process.
var queues atomic.Uint32

// noteKey is the key of the note. The note is a rule without a system call. It records that a
// source has enabled audit, even if the source is killed. A source adds it before it enables audit.
// The note belongs to no source: the last source to end removes it.
const noteKey = "quark_has_enabled_audit"

func note() []byte {
	r := newRule(auditrecord.Native(runtime.GOARCH)[0], noteKey)
	return r.Bytes()
}

func newRule(abi auditrecord.ABI, key string) auditrule.Rule {
	return auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Always, Fields: []auditrule.Field{
		{Field: auditrule.FieldArch, Value: uint32(abi)}, {Field: auditrule.FieldKey, Text: key},
	}}
}

// isSource reports whether a key belongs to a source or to the note.
func isSource(key string) bool {
	_, _, ok := owner.Parse(key)
	return ok || key == noteKey
}

// open adds the source's rules after the rules of others, so that records caused by those keep
// their keys. It returns a note if rules of others may hide events, or an error if they hide all.
func (r *rules) open(o *source.Options) (hidden string, err error) {
	list, err := r.sweep()
	if err != nil {
		return "", err
	}
	for _, rule := range list {
		switch {
		case rule.List == auditrule.ListTask && rule.Action == auditrule.Never && len(rule.Fields) == 0:
			return "", fmt.Errorf("the rule -a task,never prevents the audit of new processes: remove it with auditctl -d task,never: %w", errors.ErrUnsupported)
		case rule.Action == auditrule.Never, rule.List == auditrule.ListExclude:
			hidden = "rules of others may hide events (auditctl -l)"
		}
	}
	me, err := owner.Self()
	if err != nil {
		return "", err
	}
	r.key = me.Name(queues.Add(1))
	r.added = wanted(o, r.key)
	return hidden, r.add()
}

// wanted returns a source's rules. For each ABI one rule selects calls that do not return or whose
// failure is an event, and one selects successful calls. Births are always wanted, because they
// show which process has a pid.
func wanted(o *source.Options, key string) (list [][]byte) {
	for _, abi := range auditrecord.Native(runtime.GOARCH) {
		always, succeeded := newRule(abi, key), newRule(abi, key)
		succeeded.Fields = append(succeeded.Fields, auditrule.Field{Field: auditrule.FieldSuccess, Value: 1})
		for n, c := range abi.Calls() {
			isExec := c == auditrecord.Exec || c == auditrecord.ExecAt
			switch {
			case isExec && o.Reports(engine.EventExecFailed), c == auditrecord.ExitGroup && o.Reports(engine.EventExit):
				always.Select(n)
			case c != auditrecord.ExitGroup && (c != auditrecord.SetSID || o.Reports(engine.EventIDChange)):
				succeeded.Select(n)
			}
		}
		list = append(list, always.Bytes(), succeeded.Bytes())
	}
	return list
}

// sweep removes the rules that ended processes left behind, and returns the others.
func (r *rules) sweep() (others []auditrule.Rule, err error) {
	list, err := r.control.Rules()
	for _, b := range list {
		rule, err := auditrule.Parse(b)
		if err != nil {
			return nil, err
		}
		if o, _, ok := owner.Parse(rule.Key()); !ok || o.State() != owner.Gone || r.control.Delete(b) != nil {
			others = append(others, rule)
		}
	}
	return others, err
}

// enable adds the note, then enables audit.
func (r *rules) enable() error {
	r.enabled = true
	if err := r.add(); err != nil {
		return err
	}
	return r.control.Enable(auditrule.On)
}

// add adds the missing rules and the note.
func (r *rules) add() error {
	list := r.added
	if r.enabled {
		list = append(list[:len(list):len(list)], note())
	}
	for _, b := range list {
		switch err := r.control.Add(b); {
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("%w: the kernel has no audit of system calls, CONFIG_AUDITSYSCALL", err)
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: the audit rules are locked until the next boot (auditctl -e 2)", err)
		case err != nil && !errors.Is(err, unix.EEXIST):
			return err
		}
	}
	return nil
}

// close removes the rules. It disables audit if a source had enabled it and nobody else uses it: no
// auditd runs, and no rule is left. If another program uses audit, audit stays enabled.
func (r *rules) close() error {
	var errs []error
	for _, b := range r.added {
		switch err := r.control.Delete(b); {
		case errors.Is(err, unix.EPERM):
			errs = append(errs, fmt.Errorf("%w: needs CAP_AUDIT_CONTROL: the next Open removes the rule, or auditctl -D -k %s", err, r.key))
		case err != nil && !errors.Is(err, unix.ENOENT):
			errs = append(errs, err)
		}
	}
	list, err := r.sweep()
	st, err2 := r.control.Status()
	if err != nil || err2 != nil { // the privilege was dropped, which errs has
		return errors.Join(errs...)
	}
	noted, others := r.enabled, st.PID != 0
	for _, rule := range list {
		switch key := rule.Key(); {
		case key == noteKey:
			noted = true
		case isSource(key):
			return errors.Join(errs...)
		default:
			others = true
		}
	}
	if noted && !others {
		errs = append(errs, r.control.Enable(auditrule.Off))
	}
	if noted {
		r.control.Delete(note())
	}
	return errors.Join(errs...)
}
