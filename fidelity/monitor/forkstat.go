package monitor

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// forkstat is forkstat(8). It prints messages of the proc connector with values read from /proc at
// print time.
func forkstat() *Monitor {
	const proc = "/proc shows when the line is printed"
	return &Monitor{
		Name: "forkstat", Version: []string{"-h"}, Silent: true, Package: "forkstat", Programs: []string{"forkstat"}, Arguments: []string{"-e", "all", "-x", "-l"},
		Table: table(map[engine.Kind]string{
			engine.KindFork: "fork: a line of the parent, then one of the child", engine.KindExec: "exec", engine.KindExit: "exit",
			engine.KindIDChange: "uid, gid, sid", engine.KindSetProcTitle: "comm, without the name", engine.KindCoreDump: "core",
		}, []claim{
			{engine.FieldPPID, atFork, "the line of the parent, which " + proc},
			{engine.FieldUIDs, atLife | engine.EventSetProcTitle | engine.EventIDChange, proc + ", by name, cut at 7 characters"},
			{engine.FieldArgs, atLife | engine.EventSetProcTitle | engine.EventIDChange, proc + ", a space after each argument"},
			{engine.FieldComm, atLife | engine.EventSetProcTitle | engine.EventIDChange, "in place of the command line, where /proc has none any more"},
			{engine.FieldSID, engine.EventIDChange, "sid"},
			{engine.FieldExit, atExit, "exit, as the wait status"},
		}, "ptrce lines do not say by whom, clone lines are of threads; a line has a second, so that its arrival is its time"),
		Foreign: score.Tolerance{NoStamps: true, Late: uint64(10 * time.Second), As: spaced},
		Decoder: func() Decoder {
			return &forkstatDecoder{threads: make(map[uint32]bool), users: make(map[string]uint32)}
		},
	}
}

// spaced formats a command line with spaces between the arguments.
func spaced(f engine.Field, text string) string {
	if f == engine.FieldArgs {
		return strings.TrimRight(strings.ReplaceAll(text, "\x00", " "), " ")
	}
	return text
}

type forkstatDecoder struct {
	parent  uint32
	threads map[uint32]bool
	users   map[string]uint32 // cached lookups by name
}

// Widths of the columns after the pid: UID, EUID and TTY, a column that depends on the event, and
// the duration.
const (
	forkstatUser = 7
	forkstatIDs  = forkstatUser + 1 + forkstatUser + 1 + 6 + 1
	forkstatInfo = 6
	forkstatTime = 1 + 8 + 1
	// number of spaces in place of the first three columns
	forkstatNoIDs = 14
	forkstatGone  = "<unknown>"
)

func (d *forkstatDecoder) Decode(line []byte, at uint64, to *Output) error {
	text := string(line)
	if strings.HasPrefix(text, "Time ") {
		return nil
	}
	var when, event string
	if len(text) > 15 && text[8] == ' ' {
		when, event, text = text[:8], strings.TrimRight(text[9:14], " "), text[15:]
	}
	if when == "" || strings.Count(when, ":") != 2 {
		return fmt.Errorf("no time at the start")
	}
	if event == "recv" {
		if strings.Contains(text, "nobufs") {
			to.Uncounted++
		}
		return nil
	}
	number, rest, _ := strings.Cut(strings.TrimLeft(text, " "), " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return fmt.Errorf("no pid: %w", err)
	}
	pid := uint32(n)
	c, ok := forkstatColumns(event, rest)
	if !ok {
		return fmt.Errorf("a short line")
	}
	var kind engine.Kind
	switch event {
	case "fork":
		if c.info == "parent" {
			d.parent = pid
			return nil
		}
		kind = engine.KindFork
		delete(d.threads, pid)
	case "clone":
		if c.info == "thread" {
			d.threads[pid] = true
		}
		return nil
	case "exec":
		kind = engine.KindExec
	case "exit":
		kind = engine.KindExit
	case "uid", "gid", "sid":
		kind = engine.KindIDChange
	case "comm":
		kind = engine.KindSetProcTitle
	case "core":
		kind = engine.KindCoreDump
	case "ptrce":
		return nil
	default:
		return fmt.Errorf("unknown event %q", event)
	}
	if d.threads[pid] {
		if kind == engine.KindExit {
			delete(d.threads, pid)
		}
		if kind != engine.KindExec {
			return nil
		}
		delete(d.threads, pid)
	}
	ev, p := to.add(kind, pid, at)
	ev.IDChange = map[string]engine.IDChange{"uid": engine.ChangedUID, "gid": engine.ChangedGID, "sid": engine.ChangedSID}[event]
	if event != "comm" {
		d.setProcess(&c, p)
	}
	switch event {
	case "fork":
		if d.parent != 0 {
			setParent(p, d.parent)
		}
		d.parent = 0
	case "sid":
		if sid, err := strconv.ParseUint(c.info, 10, 32); err == nil {
			p.Known, p.SID = p.Known.With(engine.FieldSID), uint32(sid)
		}
	case "exit":
		p.Exited = true
		if status, err := strconv.ParseInt(c.info, 10, 32); err == nil {
			setExit(ev, int32(status))
		}
	case "comm":
		// The text after the arrow is the current command line, not the name.
		if i := strings.LastIndex(c.process, " -> "); i >= 0 {
			c.process = c.process[i+4:]
			d.setProcess(&c, p)
		}
	}
	return nil
}

type forkstatLine struct{ ids, info, process string }

// forkstatColumns splits the columns after the pid.
func forkstatColumns(event, rest string) (c forkstatLine, ok bool) {
	info, ids := 0, forkstatInfo+1
	if event != "gid" { // for "gid" the two are swapped
		info, ids = forkstatIDs, 0
	}
	const all = forkstatIDs + forkstatInfo + forkstatTime
	if len(rest) > forkstatNoIDs && strings.TrimSpace(rest[:forkstatNoIDs]) == "" {
		// The process is no longer in /proc.
		rest = strings.Repeat(" ", forkstatIDs-forkstatNoIDs) + rest
	}
	if len(rest) < all {
		return c, false
	}
	c.ids, c.info = rest[ids:ids+forkstatIDs], strings.TrimSpace(rest[info:info+forkstatInfo])
	rest = rest[all-1:]
	if !strings.HasPrefix(rest, " ") { // a long duration
		_, rest, _ = strings.Cut(rest, " ")
	}
	c.process = strings.TrimPrefix(rest, " ")
	return c, true
}

// setProcess sets the values from /proc.
func (d *forkstatDecoder) setProcess(c *forkstatLine, p *engine.Process) {
	real, ok := d.userID(c.ids[:forkstatUser])
	effective, ok2 := d.userID(c.ids[forkstatUser+1 : 2*forkstatUser+1])
	if ok && ok2 {
		setUser(p, real, effective)
	}
	switch text := strings.TrimRight(c.process, " "); {
	case text == forkstatGone:
	case text == c.process: // a command line has a space after each argument
		setComm(p, text)
	default:
		p.Known, p.Image.Args = p.Known.With(engine.FieldArgs), []byte(text)
	}
}

// userID returns the user id of a column with a number or a name. ok is false if the name may be
// truncated. Each name is looked up once, because a lookup reads a file.
func (d *forkstatDecoder) userID(column string) (id uint32, ok bool) {
	name := strings.TrimSpace(column)
	if name == "root" {
		return 0, true
	}
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), true
	}
	if id, ok := d.users[name]; ok || len(name) == forkstatUser {
		return id, ok
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err == nil {
		d.users[name] = uint32(n)
	}
	return uint32(n), err == nil
}
