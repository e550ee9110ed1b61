package engine

import "strconv"

// AppendJSON appends the event to b as one JSON object without a line end. Unknown fields are
// absent; "truncated" names the truncated fields. In text that is not UTF-8 the invalid bytes are
// replaced; a second member, with "_b64" after its name, has the original bytes in base64.
// Capability sets are hexadecimal strings, since JSON numbers are not safe beyond 2^53.
func (e *Event) AppendJSON(b []byte, clock *Clock, backend string) []byte {
	o := object{b: append(b, '{')}
	o.key("time")
	o.b = append(appendTime(append(o.b, '"'), e.Wall), '"')
	o.uint("time_monotonic", e.Time)
	o.uintIf(e.CPU != AllCPUs, "cpu", e.CPU)
	o.text("backend", backend)
	o.begin("events", '[')
	for i := range eventNames {
		if e.Events.Has(eventNames[i].bit) {
			o.item(eventNames[i].name)
		}
	}
	o.end(']')
	if e.Events.Has(EventIDChange) {
		o.begin("id_change", '[')
		for i, name := range idNames {
			if e.IDChange&(1<<i) != 0 {
				o.item(name)
			}
		}
		o.end(']')
	}
	if e.Events.Has(EventNSChange) {
		o.nsChange(&e.NSChange)
	}
	o.uintIf(e.Events.Has(EventPtrace), "tracer_pid", e.Tracer.PID)
	if by := e.CgroupChangeBy; e.Events.Has(EventCgroupChange) {
		o.uint("cgroup_change_by_pid", uint64(by.PID))
		if by.Start != 0 {
			o.uint("cgroup_change_by_start", by.Start)
		}
	}
	o.uintIf(e.Events.Has(EventReparent), "old_ppid", e.OldPPID)
	o.trueIf(e.Unsure, "unsure")
	o.words("rules", e.Rules)
	o.trueIf(e.Thread, "thread")
	o.uintIf(e.Thread, "tid", e.TID)
	if e.Events.Has(EventExecFailed) {
		o.failed(&e.Failed)
	}
	if len(e.Parts) > 1 {
		o.parts(e.Parts)
	}
	if e.Events.Has(EventGap) {
		o.gap(&e.Gap)
	} else if e.Process != nil {
		o.key("process")
		o.b = e.Process.AppendJSON(o.b, clock)
	}
	return append(o.b, '}')
}

// object appends the members of a JSON object, and of the objects in it.
type object struct {
	b    []byte
	some bool // the innermost object has members
}

func (o *object) open(bracket byte) { o.b, o.some = append(o.b, bracket), false }
func (o *object) end(bracket byte)  { o.b, o.some = append(o.b, bracket), true }

// next begins a member or an item.
func (o *object) next() {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
}

// item appends an item that is a plain word.
func (o *object) item(word string) {
	o.next()
	o.b = append(append(append(o.b, '"'), word...), '"')
}

func (o *object) key(name string) {
	o.next()
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// begin begins a member that is an object or an array.
func (o *object) begin(name string, bracket byte) {
	o.key(name)
	o.open(bracket)
}

// words appends an array of plain words, unless it is empty.
func (o *object) words(name string, words []string) {
	if len(words) == 0 {
		return
	}
	o.begin(name, '[')
	for _, w := range words {
		o.item(w)
	}
	o.end(']')
}

func (o *object) trueIf(v bool, name string) {
	if v {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) uint(name string, v uint64) {
	o.key(name)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) uintIf(known bool, name string, v uint32) {
	if known {
		o.uint(name, uint64(v))
	}
}

func (o *object) textIf(known bool, name, v string) {
	if known {
		o.text(name, v)
	}
}

func (o *object) text(name, v string) {
	o.key(name)
	valid := true
	if o.b, valid = appendJSONString(o.b, v); !valid {
		o.key(name + "_b64")
		o.b = appendBase64(o.b, []byte(v))
	}
}

// parts appends the parts of a joined event. For an EXEC it adds the ids that the image began with.
func (o *object) parts(parts []Part) {
	o.begin("parts", '[')
	for i := range parts {
		p := &parts[i]
		o.next()
		o.open('{')
		o.text("event", p.Kind.String())
		o.uint("time_monotonic", p.Time)
		o.uint("cpu", uint64(p.CPU))
		if p.Kind == KindExec {
			o.ids(&p.Cred, p.Known)
		}
		o.end('}')
	}
	o.end(']')
}

func (o *object) ids(c *Credentials, known Fields) {
	o.uintIf(known.Has(FieldUIDs), "uid", c.UID)
	o.uintIf(known.Has(FieldUIDs), "euid", c.EUID)
	o.uintIf(known.Has(FieldSUID), "suid", c.SUID)
	o.uintIf(known.Has(FieldGIDs), "gid", c.GID)
	o.uintIf(known.Has(FieldGIDs), "egid", c.EGID)
	o.uintIf(known.Has(FieldSGID), "sgid", c.SGID)
}

func (o *object) gap(g *Gap) {
	o.text("gap_cause", g.Cause.String())
	o.uintIf(g.CPU != AllCPUs, "gap_cpu", g.CPU)
	o.uint("gap_from", g.From)
	o.uint("gap_to", g.To)
	o.uint("gap_count", g.Count)
}
