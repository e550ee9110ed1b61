package engine

import (
	"bytes"
	"slices"
)

// process is the table's state of a process; show makes a [Process] of it. Processes share equal
// parts: a child has the context and the image of its parent until either gets another.
type process struct {
	PID, ParentSignal        uint32
	Known, Truncated, Cached Fields

	*context // of setContext alone, not to be written to
	*image   // of setImage and ownImage, likewise
	*doubts  // of ownDoubts, likewise

	Comm, Cwd string

	Start     uint64
	StartUnit uint32
	shown     uint32 // 1 + its index in table.shown, 0 while it is not there

	NSPID, PPID, PGID, SID, ParentTID uint32

	waitStatus int32
	exitTime   uint64 // by when it has ended, 0 for unknown; of FieldExit if that is known

	Marks Marks

	origin
	history
	current

	loginSince uint64 // when Login got its value

	// asOf is the time of the state: of the last event, or sighted.
	asOf uint64

	older   *process // previous process of the same pid
	younger *process // next one
}

// origin is how a process came to be: its parent at birth and its entry leader.
type origin struct {
	birthPID, entryPID     uint32
	birthStart, entryStart uint64
	// born orders the processes of one pid: the monotonic time of the fork, or
	// the best lower bound known.
	born uint64

	birthKnown   bool // the pid of the parent at birth
	birthStarted bool // its start time
	forked       bool // its FORK has been applied
	// stragglers is set if an older process of the pid may not have ended.
	stragglers bool
	EntryType  EntryType
	// unsettled is set until the entry leader is found from the processes that /proc showed.
	unsettled bool
}

// history is which events of a process have been applied or may have been lost.
type history struct {
	Exited     bool
	Inferred   bool
	execed     bool // an EXEC of it has been applied
	missed     bool // events of it may have been lost since its last EXEC
	mayLead    bool // it may have made a session since its FORK
	parented   bool // it was the parent at a FORK
	loginMixed bool // Login became another after that
}

// current is the state of a process that belongs to its image: the image with imageNumber, see
// [RawEvent.Image], since imageSince.
type current struct {
	imageSince uint64
	// before is the image until imageSince. A child forked before an exec that was delivered
	// ahead of the fork inherits that one.
	before      earlier
	imageNumber uint16
	// doubted and environDoubted are the fields of the image that are cached only because the
	// process may have ended by an exec that failed after the point of no return. No child was
	// forked after that.
	doubted        imageFlags
	environDoubted bool
	Privileges     Privileges
}

// doubts hold the checks whether a process is alive and its values are true. Few processes need
// them; the others share noDoubts.
type doubts struct {
	// sighted is when /proc showed the process, 0 if an event made it known.
	sighted uint64
	// checked is when /proc showed that this process still has the pid.
	checked uint64
	// missing is when /proc did not show it, until its end is inferred from that; see sweep.
	missing uint64
	// start is the start time as an event had it, 0 for none, where /proc had it in ticks.
	start uint64
	// guesses are the known fields of guessed processes that this one replaced, see guessAgain.
	guesses Fields
}

// ownDoubts returns the doubts of p for writing to. Their memory is used again.
func (t *table) ownDoubts(p *process) *doubts {
	if p.doubts != &noDoubts {
		return p.doubts
	}
	p.doubts = t.doubts.Get()
	return p.doubts
}

// found marks p as not missing.
func (p *process) found() {
	if p.missing != 0 { // so they are its own
		p.doubts.missing = 0
	}
}

// context holds values that a child inherits from its parent and most processes never change. Equal
// ones are shared.
type context struct {
	Inherited
	Cgroup string
}

// file is the file that a process executes and the requested path, shared by all processes with the
// same.
type file struct {
	Exe      string
	ExecPath string
	ExeFile  ExeFile
}

// equals stores equal values once. Like an interner it drops values that were not requested while a
// whole generation filled.
type equals[T comparable] struct {
	recent     [4]*T // those asked for last, which is cheaper than the hash of a map
	next       uint8 // in recent
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
	shared int32  // processes that have it, also as an earlier one
	since  uint64 // when it was first seen
	read   uint64 // when its cached fields were read, see [RawEvent.Read]
}

// imageFlags has the bits of FieldsImage from FieldExe on, without FieldEnviron.
type imageFlags uint16

func (s Fields) ofImage() imageFlags { return imageFlags(s & FieldsImage >> FieldExe) }

func (f imageFlags) fields() Fields { return Fields(f) << FieldExe }

// earlier is the image that a process had until imageSince, nil if it is not known.
type earlier struct {
	*image
	known, truncated, cached imageFlags
	number                   uint16
}

// hadEarlier reports whether the process p had its earlier image at a time.
func (p *process) hadEarlier(time uint64) bool {
	return p.before.image != nil && p.before.since <= time && time < p.imageSince
}

func (i *image) cmdline() []byte { return i.texts[:i.args:i.args] }
func (i *image) environ() []byte { return i.texts[i.args:len(i.texts):len(i.texts)] }

// newImage returns an image for one process. Its memory is used again.
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
	noDoubts  doubts
)

// setImage makes i, which is p's already, the image of p.
func (t *table) setImage(p *process, i *image) {
	t.drop(p.image)
	p.image = i
}

// ownImage returns the image of p for writing to: one that no other has.
func (t *table) ownImage(p *process) *image {
	if p.image.shared == 1 {
		return p.image
	}
	since := p.image.since
	if p.image == &noImage {
		since = p.imageSince
	}
	i := t.newImage(since)
	i.file, i.read = p.file, p.image.read
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
	sameTexts := string(cmdline) == string(p.cmdline()) && string(environ) == string(p.environ())
	if sameTexts && *f == *p.file {
		return
	}
	i := t.ownImage(p)
	if r.Task.Cached&k != 0 {
		i.read = r.Read
	}
	i.file = t.files.get(f)
	if !sameTexts {
		i.setTexts(cmdline, environ)
	}
}

// setTexts sets the arguments and the environment. Either can be a slice of i's texts.
func (i *image) setTexts(cmdline, environ []byte) {
	if len(i.texts) > 0 && len(environ) > 0 {
		environ = bytes.Clone(environ)
	}
	i.texts, i.args = append(append(i.texts[:0], cmdline...), environ...), uint32(len(cmdline))
}

// change returns a copy of the context of p, for setContext.
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

// copy makes c, which shares no memory, a copy of p with its own references to the parts that p
// shares.
func (t *table) copy(c, p *process) {
	*c = *p
	c.image.share()
	c.before.image.share()
	c.older, c.younger, c.shown = nil, nil, 0
	if c.doubts = &noDoubts; p.doubts != &noDoubts {
		*t.ownDoubts(c) = *p.doubts
	}
}

// release drops p's references to shared parts.
func (t *table) release(p *process) {
	t.drop(p.image)
	t.drop(p.before.image)
	p.image, p.before.image = &noImage, nil
	if d := p.doubts; d != nil && d != &noDoubts {
		*d = doubts{}
		t.doubts.Put(d)
	}
	p.doubts = &noDoubts
}

// show returns p as callers see it, until hide, nil for nil.
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

// maxViews is how many are kept for their next use.
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

// fill writes p to v, every member of it: v is used again.
func (t *table) fill(v *Process, p *process) {
	v.PID, v.Comm, v.Cwd, v.Cgroup = p.PID, p.Comm, p.Cwd, p.Cgroup
	v.Image = Image{Exe: p.Exe, ExecPath: p.ExecPath, Args: p.cmdline(), Environ: p.environ()}
	k := &v.Task
	k.Known, k.Truncated, k.Cached, k.ParentSignal, k.NSPID = p.Known, p.Truncated, p.Cached, p.ParentSignal, p.NSPID
	k.Start, k.StartUnit = p.Start, uint64(p.StartUnit)
	k.PPID, k.PGID, k.SID, k.ParentTID = p.PPID, p.PGID, p.SID, p.ParentTID
	k.Inherited, k.ExeFile, k.Exit = p.Inherited, p.ExeFile, Exit{}
	if p.Known.Has(FieldExit) {
		k.Exit = Exit{p.waitStatus, p.exitTime}
	}
	v.Birth = Birth{Parent: Identity{p.birthPID, p.birthStart}}
	if p.birthKnown {
		v.Birth.Known |= FieldPPID.Set()
	}
	if p.birthStarted {
		v.Birth.Known |= FieldStart.Set()
	}
	v.Usage = Usage{}
	if p == t.used {
		v.Usage = t.usage
	}
	v.EntryLeader, v.EntryType, v.Privileges = Identity{p.entryPID, p.entryStart}, p.EntryType, p.Privileges
	v.Marks, v.Exited, v.Inferred = p.Marks, p.Exited, p.Inferred
	v.asOf, v.born, v.execed, v.tags, v.clock = p.asOf, p.born, p.execed, t.tags, t.clock
}

// inner returns the members of p that identify its relatives. p may be a clone of a removed
// process.
func (p *Process) inner() process {
	return process{
		doubts: &noDoubts, PID: p.PID, Known: p.Known, Cached: p.Cached, PPID: p.PPID, PGID: p.PGID, SID: p.SID, asOf: p.asOf,
		origin: origin{
			birthKnown: p.Birth.Known.Has(FieldPPID), birthStarted: p.Birth.Known.Has(FieldStart),
			birthPID: p.Birth.Parent.PID, birthStart: p.Birth.Parent.Start, born: p.born,
		},
	}
}

// same reports whether p and o, which may be a copy, are one process.
func (p *process) same(o *process) bool { return p.PID == o.PID && p.born == o.born }
