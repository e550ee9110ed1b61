package engine

import (
	"bytes"
	"slices"
)

// process is the table's state of a process; show makes a [Process] of it. Processes share equal
// parts: a child shares the context and the image of its parent until one of the two changes them.
type process struct {
	PID                      uint32
	life                     life
	StartUnit                uint32
	Known, Truncated, Cached Fields

	*context // set only by setContext, not to be written to
	*image   // set only by setImage and ownImage, likewise

	Comm  string
	Start uint64
	exit  Exit // if FieldExit is not known, Time is the latest possible end, 0 for unknown

	NSPID, PPID, PGID, SID, ParentSignal uint32

	shown uint32 // 1 + its index in table.shown, 0 if it is not in the slice
	Marks Marks
	birth birth
	entry entry

	// born orders the processes of one pid. It is the monotonic time of the fork, or the best
	// known lower bound.
	born uint64
	// asOf is the time of the state: of the last event, or of the read of /proc.
	asOf uint64
	// checked is the time at which /proc last showed that this process still has the pid.
	checked uint64

	older   *process // previous process of the pid
	younger *process // next process of the pid
}

// birth is the parent of a process at its fork, and the origin of this entry.
type birth struct {
	Birth
	tid  uint32 // the thread of the parent
	from origin
}

// origin is how a process came into the table.
type origin uint8

const (
	fromEvent origin = iota // by an event other than its FORK
	fromProc                // read from /proc
	fromFork
)

// life is whether a process has ended.
type life uint8

const (
	living   life = iota
	replaced      // another process has its pid: the EXIT was lost, and GONE will follow
	inferred      // the EXIT was lost
	ended         // by its EXIT
)

// entry is the entry leader of a process.
type entry struct {
	leader Identity
	by     EntryType
}

// context holds values that a child inherits from its parent and most processes never change.
// Processes share equal contexts.
type context struct {
	Inherited
	Cwd, Cgroup string
}

// file is the file that a process executes and the requested path. Processes share equal ones.
type file struct {
	Exe      string
	ExecPath string
	ExeFile  ExeFile
}

// equals stores equal values once. Like an interner it drops values that were not requested for a
// generation.
type equals[T comparable] struct {
	recent     [4]*T // the last requested values: cheaper than the hash of a map
	next       uint8 // index in recent
	young, old map[T]*T
}

const equalsGeneration = 256

func (e *equals[T]) get(v *T) *T {
	for _, one := range e.recent {
		if one != nil && *one == *v {
			return one
		}
	}
	one := e.find(v)
	e.recent[e.next%4] = one
	e.next++
	return one
}

func (e *equals[T]) find(v *T) *T {
	if one, ok := e.young[*v]; ok {
		return one
	}
	one, ok := e.old[*v]
	if !ok {
		one = new(T)
		*one = *v
	}
	if len(e.young) >= equalsGeneration || e.young == nil {
		e.young, e.old = e.old, e.young
		if e.young == nil {
			e.young = make(map[T]*T)
		}
		clear(e.young)
	}
	e.young[*one] = one
	return one
}

// image is the part of a process that an exec replaces.
type image struct {
	*file // not to be written to

	texts  []byte // the arguments and the environment
	args   uint32 // length of the arguments
	shared int32  // number of processes that share it
	since  uint64 // when it was first seen
	read   uint64 // when its cached fields were read, see [RawEvent.Read]
	number uint16 // see [RawEvent.Image]

	Privileges Privileges
	stdio      [3]Stream
}

func (i *image) cmdline() []byte { return i.texts[:i.args:i.args] }
func (i *image) environ() []byte { return i.texts[i.args:len(i.texts):len(i.texts)] }

// newImage returns an image for one process, from reused memory.
func (t *table) newImage(since uint64) *image {
	i := t.images.Get()
	*i = image{file: &noFile, texts: i.texts[:0], shared: 1, since: since}
	return i
}

// drop releases one reference to i.
func (t *table) drop(i *image) {
	if i == nil || i == &noImage {
		return
	}
	if i.shared--; i.shared > 0 {
		return
	}
	if cap(i.texts) > maxKeptData {
		i.texts = nil
	}
	t.images.Put(i)
}

// share returns i for another process.
func (i *image) share() *image {
	if i != nil && i != &noImage {
		i.shared++
	}
	return i
}

var (
	noFile    file
	noImage   = image{file: &noFile}
	noContext context
)

// setImage makes i the image of p. It takes over the caller's reference to i.
func (t *table) setImage(p *process, i *image) {
	t.drop(p.image)
	p.image = i
}

// ownImage returns the image of p to write to: p is the only process with this image.
func (t *table) ownImage(p *process) *image {
	if p.image.shared == 1 {
		return p.image
	}
	i := t.newImage(p.image.since)
	i.file, i.read, i.number, i.Privileges, i.stdio = p.file, p.read, p.number, p.Privileges, p.stdio
	i.texts, i.args = append(i.texts, p.texts...), p.args
	t.setImage(p, i)
	return i
}

// updateImage copies the fields of the image in k from r.
func (t *table) updateImage(p *process, r *RawEvent, k Fields) {
	cmdline, environ := p.cmdline(), p.environ()
	if k.Has(FieldArgs) {
		cmdline = r.Bytes(FieldArgs)
	}
	if k.Has(FieldEnviron) {
		environ = r.Bytes(FieldEnviron)
	}
	f := &t.executed
	*f = *p.file
	if k.Has(FieldExe) {
		t.updateName(&f.Exe, r.Bytes(FieldExe))
	}
	if k.Has(FieldExecPath) {
		t.updateName(&f.ExecPath, r.Bytes(FieldExecPath))
	}
	copyIf(k.Has(FieldExeFile), &f.ExeFile, &r.Task.ExeFile)
	stdio := p.stdio
	copyIf(k.Has(FieldStdio), &stdio, &r.Task.Stdio)
	sameTexts := string(cmdline) == string(p.cmdline()) && string(environ) == string(p.environ())
	if sameTexts && *f == *p.file && stdio == p.stdio {
		return
	}
	i := t.ownImage(p)
	i.stdio = stdio
	if r.Task.Cached&k != 0 {
		i.read = r.Read
	}
	i.file = t.files.get(f)
	if !sameTexts {
		i.setTexts(cmdline, environ)
	}
}

// setTexts sets the arguments and the environment. Both may be slices of i.texts.
func (i *image) setTexts(cmdline, environ []byte) {
	if len(i.texts) > 0 && len(environ) > 0 {
		environ = bytes.Clone(environ)
	}
	i.texts, i.args = append(append(i.texts[:0], cmdline...), environ...), uint32(len(cmdline))
}

// change returns a copy of the context of p, to be modified and passed to setContext.
func (t *table) change(p *process) *context {
	t.changed = *p.context
	return &t.changed
}

// setContext makes the context of p equal to c.
func (t *table) setContext(p *process, c *context) {
	if *c != *p.context {
		p.context = t.contexts.get(c)
	}
}

// copy makes c a copy of p, with its own references to the shared parts. c must have no references
// before.
func (t *table) copy(c, p *process) {
	*c = *p
	c.image.share()
	c.older, c.younger, c.shown = nil, nil, 0
}

// release drops p's references to shared parts.
func (t *table) release(p *process) {
	t.drop(p.image)
	p.image = &noImage
}

// show returns p as callers see it, or nil for nil. The result is valid until hide.
func (t *table) show(p *process) *Process {
	if p == nil {
		return nil
	}
	if p.shown == 0 {
		t.shown = append(t.shown, p)
		p.shown = uint32(len(t.shown))
		if len(t.views) < len(t.shown) {
			t.views = append(t.views, new(Process))
		}
		t.fill(t.views[p.shown-1], p)
	}
	return t.views[p.shown-1]
}

// maxViews is the number of views kept for reuse.
const maxViews = 64

// hide invalidates the results of show.
func (t *table) hide() {
	for _, p := range t.shown {
		p.shown = 0
	}
	t.shown = t.shown[:0]
	if len(t.views) > maxViews {
		t.shown, t.views = nil, slices.Clone(t.views[:maxViews])
	}
}

// fill copies p to v. It sets every member, as v is reused.
func (t *table) fill(v *Process, p *process) {
	v.PID, v.Comm, v.Cwd, v.Cgroup = p.PID, p.Comm, p.Cwd, p.Cgroup
	v.Image = Image{Exe: p.Exe, ExecPath: p.ExecPath, Args: p.cmdline(), Environ: p.environ()}
	k := &v.Task
	k.Known, k.Truncated, k.Cached, k.ParentSignal, k.NSPID = p.Known, p.Truncated, p.Cached, p.ParentSignal, p.NSPID
	k.Start, k.StartUnit = p.Start, uint64(p.StartUnit)
	k.PPID, k.PGID, k.SID, k.ParentTID = p.PPID, p.PGID, p.SID, p.birth.tid
	k.Inherited, k.ExeFile, k.Stdio, k.Exit = p.Inherited, p.ExeFile, p.stdio, Exit{}
	if p.Known.Has(FieldExit) {
		k.Exit = p.exit
	}
	v.Birth, v.Usage = p.birth.Birth, Usage{}
	if p == t.used {
		v.Usage = t.usage
	}
	v.EntryLeader, v.EntryType, v.Privileges = p.entry.leader, p.entry.by, p.Privileges
	v.Marks, v.Exited, v.Inferred = p.Marks, p.life != living, p.life == replaced || p.life == inferred
	v.asOf, v.born, v.tags, v.clock = p.asOf, p.born, t.tags, t.clock
}

// inner returns a process with the members of p that identify its relatives. p may be a clone of a
// removed process.
func (p *Process) inner() process {
	return process{
		PID: p.PID, Known: p.Known, Cached: p.Cached, PPID: p.PPID, PGID: p.PGID, SID: p.SID,
		asOf: p.asOf, born: p.born, birth: birth{Birth: p.Birth},
	}
}

// same reports whether p and o, which may be a copy, are one process.
func (p *process) same(o *process) bool { return p.PID == o.PID && p.born == o.born }
