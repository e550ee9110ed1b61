package line

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark"
)

// A Column is one column of the lines.
type Column struct {
	Name     string
	right    bool
	min, max int // of the width
	// show writes known values of the process, as listed in fields. If fields is 0, it writes
	// values of the event.
	fields quark.Fields
	show   func(c *cell, p *Printer, ev *quark.Event)
}

// Default lists the default columns. Narrow lists the default columns on a terminal narrower than
// [Wide]: the arguments get half of 80 columns.
const (
	Default = "time,duration,user,pid,ppid,event,status,args"
	Narrow  = "clock,user,pid,event,status,args"
	Wide    = 110
)

// all has all columns: first the columns with a special form, then the other quark.Rows.
var all = append([]Column{
	{"time", false, 12, 15, 0, func(c *cell, p *Printer, ev *quark.Event) { p.time(c, clock, ev.Wall) }},
	{"clock", false, 8, 8, 0, func(c *cell, p *Printer, ev *quark.Event) { p.time(c, time.TimeOnly, ev.Wall) }},
	{"date", false, 10, 10, 0, func(c *cell, p *Printer, ev *quark.Event) { p.time(c, time.DateOnly, ev.Wall) }},
	{"duration", true, 6, 10, 0, showDuration},
	{"event", false, 5, 16, 0, showKinds},
	{"status", false, 7, 16, 0, showStatus},
	user("user", func(c *quark.Credentials) uint32 { return c.UID }),
	user("euser", func(c *quark.Credentials) uint32 { return c.EUID }),
	group("group", func(c *quark.Credentials) uint32 { return c.GID }),
	group("egroup", func(c *quark.Credentials) uint32 { return c.EGID }),
	{"login_user", false, 8, 16, 1 << quark.FieldLogin, showLogin},
	{"pid", true, 5, 21, 0, showPID},
	{"exe_file", false, 8, 24, 1 << quark.FieldExeFile, showFile},
	{"exe_mode", false, 5, 6, 1 << quark.FieldExeFile, func(c *cell, _ *Printer, ev *quark.Event) {
		c.ascii(fmt.Sprintf("%05o", ev.Process.ExeFile.Mode&0o7777))
	}},
	{"privileges", false, 10, 25, 1 << quark.FieldPrivileges, func(c *cell, _ *Printer, ev *quark.Event) { c.ascii(cmp.Or(ev.Process.Privileges.String(), "-")) }},
	{"container_id", false, 12, 40, 1 << quark.FieldCgroup, showContainer},
	{"tty", false, 5, 12, 1 << quark.FieldTTY, func(c *cell, _ *Printer, ev *quark.Event) { c.ascii(terminal(ev.Process.TTY)) }},
	{"cpu", true, 3, 10, 0, showCPU},
	used("cpu_time", quark.FieldCPUTime, func(u *quark.Usage) string { return Short(time.Duration(u.UserTime + u.SystemTime)) }),
	used("peak_rss", quark.FieldPeakRSS, func(u *quark.Usage) string { return bytes(u.PeakRSS) }),
	used("read_bytes", quark.FieldIO, func(u *quark.Usage) string { return bytes(u.ReadBytes) }),
	used("write_bytes", quark.FieldIO, func(u *quark.Usage) string { return bytes(u.WriteBytes) }),
	{"cached", false, 7, 40, 0, func(c *cell, _ *Printer, ev *quark.Event) { c.ascii(cmp.Or(ev.Process.Cached.String(), "-")) }},
	{"rules", false, 5, 40, 0, func(c *cell, _ *Printer, ev *quark.Event) { c.ascii(cmp.Or(strings.Join(ev.Rules, ","), "-")) }},
	{"tags", false, 4, 40, 0, func(c *cell, _ *Printer, ev *quark.Event) { c.ascii(cmp.Or(strings.Join(ev.Process.Tags(), ","), "-")) }},
	{"args", false, 4, 60, 0, showArgs},
}, ofRows()...)

// ofRows returns the columns for fields that are texts, words or numbers. Other columns show the
// fields of an EXIT.
func ofRows() (columns []Column) {
	own := []string{"tty", "exe_mode", "privileges"}
	rows := quark.Rows()
	for i := range rows {
		r := &rows[i]
		if r.Fields == 0 || r.Fields&(quark.FieldsUsage|1<<quark.FieldExit|1<<quark.FieldStart) != 0 || slices.Contains(own, r.Name) {
			continue
		}
		c := Column{Name: r.Name, fields: r.Fields}
		switch {
		case r.Text != nil:
			c.min, c.max = 5, 40
			if r.Name == "comm" {
				c.min, c.max = 4, 20
			}
			c.show = func(c *cell, _ *Printer, ev *quark.Event) {
				if !r.Has(ev.Process, nil) {
					c.put("-", 1)
					return
				}
				c.quote(r.Text(ev.Process))
				c.ellipsis(ev.Process, r.Fields)
			}
		case r.Number != nil:
			c.right, c.min, c.max = true, 5, 20
			c.show = func(c *cell, _ *Printer, ev *quark.Event) {
				if !r.Has(ev.Process, nil) {
					c.put("-", 1)
					return
				}
				var b [20]byte
				c.ascii(string(r.AppendWord(b[:0], ev.Process, nil)))
			}
		default:
			continue
		}
		columns = append(columns, c)
	}
	return columns
}

func user(name string, of func(*quark.Credentials) uint32) Column {
	return Column{name, false, 8, 16, 1 << quark.FieldUIDs, func(c *cell, p *Printer, ev *quark.Event) { c.id(p.User, ev.Process, of(&ev.Process.Cred)) }}
}

func group(name string, of func(*quark.Credentials) uint32) Column {
	return Column{name, false, 8, 16, 1 << quark.FieldGIDs, func(c *cell, p *Printer, ev *quark.Event) { c.id(p.Group, ev.Process, of(&ev.Process.Cred)) }}
}

func used(name string, f quark.Field, of func(*quark.Usage) string) Column {
	return Column{name, true, max(len(name), 6), 10, 0, func(c *cell, _ *Printer, ev *quark.Event) {
		switch {
		case !ev.Events.Has(quark.EventExit) || ev.Thread:
			c.put("-", 1)
		case !ev.Process.Known.Has(f):
			c.unknown()
		default:
			c.ascii(of(&ev.Process.Usage))
		}
	}}
}

// bytes returns a number of bytes, rounded down to three or four digits.
func bytes(n uint64) string {
	units := "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprint(n)
	}
	for n >= 1<<20 {
		n, units = n>>10, units[1:]
	}
	if n < 10<<10 {
		return fmt.Sprintf("%d.%d%c", n>>10, n%(1<<10)*10>>10, units[0])
	}
	return fmt.Sprintf("%d%c", n>>10, units[0])
}

// Names returns the names of all columns.
func Names() (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// Parse returns the columns in a comma-separated list of names.
func Parse(list string) (columns []Column, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no column %q: choose from %s", name, strings.Join(Names(), ","))
		}
		columns = append(columns, all[i])
	}
	return columns, nil
}

// fill writes the column for an event: "?" for an unknown value, and "*" before a cached value. In
// values from quote, these two characters are always within quotation marks.
func (col *Column) fill(c *cell, p *Printer, ev *quark.Event) {
	if col.fields != 0 && !c.mark(ev.Process, col.fields) {
		return
	}
	col.show(c, p, ev)
}

// mark reports whether f are known. It writes "?" if they are unknown, "*" if they are cached.
func (c *cell) mark(p *quark.Process, f quark.Fields) (known bool) {
	switch {
	case f&^p.Known != 0:
		c.unknown()
		return false
	case p.Cached&f != 0:
		c.put("*", 1)
	}
	return true
}

func (c *cell) unknown() {
	c.put("?", 1)
	c.style = dim
}

// ellipsis writes "..." if the backend has truncated the text.
func (c *cell) ellipsis(p *quark.Process, f quark.Fields) {
	if p.Truncated&f != 0 {
		c.ascii("...")
	}
}

func showPID(c *cell, _ *Printer, ev *quark.Event) {
	c.uint(uint64(ev.Process.PID))
	if ev.Thread {
		c.put("/", 1)
		c.uint(uint64(ev.TID))
	}
}

func showLogin(c *cell, p *Printer, ev *quark.Event) {
	if uid := ev.Process.Login.UID; uid != quark.LoginUnset {
		c.id(p.User, ev.Process, uid)
		return
	}
	c.put("-", 1)
}

// showFile writes the executed file: device numbers and inode.
func showFile(c *cell, _ *Printer, ev *quark.Event) {
	x := &ev.Process.ExeFile
	c.ascii(fmt.Sprintf("%d:%d:%d", x.Major(), x.Minor(), x.Inode))
}

// showContainer writes the start of the container's id, and the systemd unit of the container.
func showContainer(c *cell, _ *Printer, ev *quark.Event) {
	const short = 12 // as docker and podman print it
	switch of, known := ev.Process.Container(); {
	case !known:
		c.reset(c.max)
		c.unknown()
	case of.ID == "":
		c.put("-", 1)
	default:
		id := of.ID
		if len(id) == 64 {
			id = id[:short]
		}
		c.quote(id)
		if of.Unit != "" {
			c.put("@", 1)
			c.quote(of.Unit)
		}
	}
}

func showCPU(c *cell, _ *Printer, ev *quark.Event) {
	// An event that quark-mon made from /proc has no CPU.
	if ev.CPU == quark.AllCPUs || ev.Events == 0 {
		c.put("-", 1)
		return
	}
	c.uint(uint64(ev.CPU))
}

// showArgs writes the arguments and, for a failed exec, the requested path. If the arguments are
// unknown, it writes the name in brackets, as ps(1) does.
func showArgs(c *cell, _ *Printer, ev *quark.Event) {
	p := ev.Process
	if ev.Events == quark.EventExecFailed {
		showFailed(c, &ev.Failed)
		return
	}
	if known := c.mark(p, 1<<quark.FieldArgs); known && len(p.Image.Args) > 0 {
		first := true
		for arg := range p.Arguments() {
			if !first {
				c.put(" ", 1)
			}
			if first = false; c.full {
				break
			}
			c.quote(string(arg))
		}
		c.ellipsis(p, 1<<quark.FieldArgs)
		return
	} else if !known {
		if !p.Known.Has(quark.FieldComm) {
			return
		}
		c.put(" ", 1)
	}
	c.put("[", 1)
	if c.mark(p, 1<<quark.FieldComm) {
		c.quote(p.Comm)
	}
	c.put("]", 1)
}

// showFailed writes the path of a failed exec.
func showFailed(c *cell, f *quark.FailedExec) {
	if !f.PathKnown {
		c.unknown()
		return
	}
	if f.PathCached {
		c.put("*", 1)
	}
	c.quote(f.Path)
	if f.PathTruncated {
		c.ascii("...")
	}
}

// terminal returns the usual name of a terminal, or its numbers.
func terminal(t quark.TTY) string {
	switch {
	case t == quark.TTY{}:
		return "-"
	case t.Major == 136:
		return fmt.Sprintf("pts/%d", t.Minor)
	case t.Major == 4 && t.Minor < 64:
		return fmt.Sprintf("tty%d", t.Minor)
	case t.Major == 4:
		return fmt.Sprintf("ttyS%d", t.Minor-64)
	}
	return fmt.Sprintf("%d:%d", t.Major, t.Minor)
}

// showKinds writes short words for the parts of an event in order. It names changed ids and
// namespaces.
func showKinds(c *cell, _ *Printer, ev *quark.Event) {
	var shown quark.Events
	joined := true // to a single letter, without a plus
	show := func(k quark.Kind) {
		word := kindWords[k]
		switch k.Events() {
		case shown & k.Events():
			return
		case quark.EventIDChange:
			if word = strings.ReplaceAll(strings.ToLower(ev.IDChange.String()), "set", ""); strings.Contains(word, "+") {
				word = "ids"
			}
		case quark.EventNSChange:
			word = fmt.Sprintf("ns(%s)", ev.NSChange.Changed)
		case quark.EventPtrace:
			word = fmt.Sprintf("%s(%d)", word, ev.Tracer.PID)
		case quark.EventReparent:
			word = fmt.Sprintf("%s(%d)", word, ev.OldPPID)
		case quark.EventCgroupChange:
			word = fmt.Sprintf("%s(%d)", word, ev.CgroupChangeBy.PID)
		}
		if shown != 0 && !(joined && len(word) == 1) {
			c.put("+", 1)
		}
		c.ascii(word)
		shown, joined = shown|k.Events(), joined && strings.ToUpper(word) == word
	}
	for _, part := range ev.Parts {
		show(part.Kind)
	}
	for k := range quark.Kind(quark.NumKinds) {
		if len(ev.Parts) <= 1 && ev.Events.Has(k.Events()) {
			show(k)
		}
	}
	if shown == 0 {
		c.put("-", 1)
	}
}

// kindWords has short words for the kinds of events. Single letters are joined without a plus.
var kindWords = func() (words [quark.NumKinds]string) {
	short := map[string]string{"FORK": "F", "EXEC": "E", "EXIT": "X", "EXEC_FAILED": "E!", "SETPROCTITLE": "name", "CORE_DUMP": "core", "CGROUP_CHANGE": "cgroup", "REPARENT": "parent"}
	for k := range words {
		name := quark.Kind(k).String()
		words[k] = cmp.Or(short[name], strings.ToLower(name))
	}
	return words
}()
