package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/cputime"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

const (
	eventSize = int(unsafe.Sizeof(programsEvent{}))
	exitSize  = int(unsafe.Sizeof(programsExitEvent{}))
	nsSize    = int(unsafe.Sizeof(programsNsEvent{}))
	// size of a record with texts, without the texts
	textsSize = int(unsafe.Offsetof(programsTextEvent{}.Data))
)

// kinds maps the programs' kinds of event to the engine's.
var kinds = [programsEventKindEVENT_KINDS]engine.Kind{
	programsEventKindEVENT_FORK:          engine.KindFork,
	programsEventKindEVENT_EXEC:          engine.KindExec,
	programsEventKindEVENT_EXIT:          engine.KindExit,
	programsEventKindEVENT_ID_CHANGE:     engine.KindIDChange,
	programsEventKindEVENT_COMM:          engine.KindSetProcTitle,
	programsEventKindEVENT_PTRACE:        engine.KindPtrace,
	programsEventKindEVENT_EXEC_FAILED:   engine.KindExecFailed,
	programsEventKindEVENT_NS_CHANGE:     engine.KindNSChange,
	programsEventKindEVENT_CGROUP_CHANGE: engine.KindCgroupChange,
}

// This does not compile unless event.ids and engine.IDChange use the same bits.
var _ = [1]struct{}{}[programsEventIdsIDS_SID^programsEventIds(engine.ChangedSID)|
	programsEventIdsIDS_UID^programsEventIds(engine.ChangedUID)|programsEventIdsIDS_GID^programsEventIds(engine.ChangedGID)|
	programsEventIdsIDS_PGID^programsEventIds(engine.ChangedPGID)]

// knownFields maps each bit of event.known to the engine's fields.
var knownFields = []struct {
	bit    programsEventKnown
	fields engine.Fields
}{
	{programsEventKnownKNOWN_START, engine.FieldStart.Set()},
	{programsEventKnownKNOWN_PPID, engine.FieldPPID.Set()},
	{programsEventKnownKNOWN_PGID, engine.FieldPGID.Set()},
	{programsEventKnownKNOWN_SID, engine.FieldSID.Set()},
	{programsEventKnownKNOWN_IDS, engine.FieldsIDs},
	{programsEventKnownKNOWN_CAPS, engine.FieldCaps.Set()},
	{programsEventKnownKNOWN_TTY, engine.FieldTTY.Set()},
	{programsEventKnownKNOWN_UTS, engine.FieldUTSNS.Set()},
	{programsEventKnownKNOWN_IPC, engine.FieldIPCNS.Set()},
	{programsEventKnownKNOWN_MNT, engine.FieldMntNS.Set()},
	{programsEventKnownKNOWN_NET, engine.FieldNetNS.Set()},
	{programsEventKnownKNOWN_EXIT_SIGNAL, engine.FieldParentSignal.Set()},
	{programsEventKnownKNOWN_LOGIN, engine.FieldLogin.Set()},
	{programsEventKnownKNOWN_PIDNS, engine.FieldPIDNS.Set()},
	{programsEventKnownKNOWN_USERNS, engine.FieldUserNS.Set()},
	{programsEventKnownKNOWN_CGROUPNS, engine.FieldCgroupNS.Set()},
	{programsEventKnownKNOWN_TIMENS, engine.FieldTimeNS.Set()},
	{programsEventKnownKNOWN_NO_NEW_PRIVS, engine.FieldNoNewPrivs.Set()},
	{programsEventKnownKNOWN_SECCOMP, engine.FieldSeccomp.Set()},
}

// allKnown has all bits of knownFields, and allFields all their fields.
const (
	allKnown  = programsEventKnownKNOWN_COMM - 1
	allFields = engine.AllFields &^ (1<<engine.FieldComm | 1<<engine.FieldExe | 1<<engine.FieldArgs |
		1<<engine.FieldCwd | 1<<engine.FieldCgroup | 1<<engine.FieldExit | 1<<engine.FieldBirthParentTID | 1<<engine.FieldExeFile |
		1<<engine.FieldExecPath | 1<<engine.FieldEnviron | 1<<engine.FieldStdio | engine.FieldsUsage)
)

var (
	errShort = errors.New("record shorter than its fixed part")
	errKind  = errors.New("record of an unknown kind")
	errSize  = errors.New("lengths in the record do not match its size")
	errPath  = errors.New("path in the record is not terminated")
	errForm  = errors.New("text in the record has an unknown form")
)

// decode fills the empty ev from a record. environ selects the variables of the environment.
func decode(ev *engine.RawEvent, record []byte, environ *source.Variables) error {
	if len(record) < eventSize {
		return errShort
	}
	var e programsEvent
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&e)), eventSize), record)
	if e.Kind >= programsEventKindEVENT_KINDS {
		return errKind
	}
	ev.Kind = kinds[e.Kind]
	ev.Thread = e.Thread != 0
	ev.PID, ev.TID, ev.CPU, ev.Time = e.Tgid, e.Tid, e.Cpu, e.Time
	ev.Creator, ev.Image = e.Creator, e.Image
	ev.Tracer.PID, ev.Tracer.TID = e.Tracer, e.TracerTid
	ev.IDChange = engine.IDChange(e.Ids) & (engine.ChangedSID | engine.ChangedUID | engine.ChangedGID | engine.ChangedPGID)
	decodeTask(&ev.Task, &e)
	if e.Known&programsEventKnownKNOWN_WAIT != 0 {
		ev.Task.Known |= engine.FieldExit.Set()
		ev.Task.Exit = engine.Exit{WaitStatus: e.WaitStatus, Time: e.Time}
	}
	if e.Known&programsEventKnownKNOWN_COMM != 0 {
		comm := unsafe.Slice((*byte)(unsafe.Pointer(&e.Comm)), len(e.Comm))
		if end := bytes.IndexByte(comm, 0); end >= 0 {
			comm = comm[:end]
		}
		ev.Set(engine.FieldComm, comm)
	}
	if len(record) > eventSize {
		switch e.Kind {
		case programsEventKindEVENT_EXIT:
			return decodeUsage(ev, e.Known, record)
		case programsEventKindEVENT_NS_CHANGE:
			return decodeNSChange(ev, record)
		}
		rest, err := decodeTexts(ev, record)
		if err == nil && e.Known&programsEventKnownKNOWN_STDIO != 0 {
			rest, err = decodeStdio(ev, rest, (len(rest)-len(record)+textsSize)&7)
		}
		if err == nil && e.Known&programsEventKnownKNOWN_ENVIRON != 0 {
			environ.Set(ev, rest, e.Known&programsEventKnownKNOWN_ENVIRON_CUT != 0)
		} else if err == nil && len(rest) != 0 {
			err = errSize
		}
		if err != nil {
			return err
		}
	}
	if ev.Kind == engine.KindExecFailed {
		decodeFailed(ev, &e)
	}
	return nil
}

// decodeFailed adds the fields that only a record of a failed exec has.
func decodeFailed(ev *engine.RawEvent, e *programsEvent) {
	ev.Tracer.PID, ev.Tracer.TID = 0, 0
	ev.Errno = uint16(-e.WaitStatus)
	f := engine.FieldExe
	ev.Task.Cached |= f.Set() & ev.Task.Known
	path := ev.Bytes(f)
	if named := source.PathBelow(int32(e.Tracer), path); ev.Task.Known.Has(f) && len(named) > len(path) {
		ev.Set(f, named)
	}
}

// decodeNSChange fills in the changed namespaces. A task has its new namespaces only after the
// program has run.
func decodeNSChange(ev *engine.RawEvent, record []byte) error {
	if len(record) != nsSize {
		return errSize
	}
	var x programsNsEvent
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&x)), nsSize), record)
	ev.SetChange(engine.NSSet(x.Changed), &x.Old.Of, &x.Now.Of)
	return nil
}

var pageSize = uint64(os.Getpagesize())

func decodeUsage(ev *engine.RawEvent, known programsEventKnown, record []byte) error {
	if len(record) != exitSize {
		return errSize
	}
	var x programsExitEvent
	u := &x.Usage
	copy(unsafe.Slice((*byte)(unsafe.Pointer(u)), exitSize-eventSize), record[eventSize:])
	if known&programsEventKnownKNOWN_CPU_TIME != 0 {
		ev.Task.Known |= engine.FieldCPUTime.Set()
		ev.Usage.UserTime, ev.Usage.SystemTime = cputime.Times{
			Run: u.Run, User: u.Utime, System: u.Stime, ShownUser: u.ShownUtime, ShownSystem: u.ShownStime,
		}.Divide()
	}
	if known&programsEventKnownKNOWN_PEAK_RSS != 0 {
		ev.Task.Known |= engine.FieldPeakRSS.Set()
		ev.Usage.PeakRSS = u.PeakRss * pageSize
	}
	if known&programsEventKnownKNOWN_IO != 0 {
		ev.Task.Known |= engine.FieldIO.Set()
		ev.Usage.RChar, ev.Usage.WChar, ev.Usage.ReadBytes, ev.Usage.WriteBytes = u.Rchar, u.Wchar, u.ReadBytes, u.WriteBytes
	}
	return nil
}

func decodeTask(t *engine.Task, e *programsEvent) {
	if e.Known&allKnown == allKnown {
		t.Known |= allFields
	} else {
		for _, k := range knownFields {
			if e.Known&k.bit != 0 {
				t.Known |= k.fields
			}
		}
	}
	if e.Known&programsEventKnownKNOWN_PARENT_TID != 0 && e.Thread == 0 {
		t.Known |= engine.FieldBirthParentTID.Set()
		t.ParentTID = e.ParentTid
	}
	t.Start, t.StartUnit = e.Start, 1
	t.PPID, t.PGID, t.SID = e.Ppid, e.Pgid, e.Sid
	t.Cred = engine.Credentials{UID: e.Uid, EUID: e.Euid, SUID: e.Suid, GID: e.Gid, EGID: e.Egid, SGID: e.Sgid}
	t.Caps = engine.Capabilities{
		Inheritable: e.Caps[0], Permitted: e.Caps[1], Effective: e.Caps[2], Bounding: e.Caps[3], Ambient: e.Caps[4],
	}
	t.TTY = engine.TTY{Major: e.TtyMajor, Minor: e.TtyMinor}
	t.NS = engine.Namespaces{UTS: e.Uts, IPC: e.Ipc, Mnt: e.Mnt, Net: e.Net,
		PID: e.Pidns, User: e.Userns, Cgroup: e.Cgroupns, Time: e.Timens}
	t.NSPID = e.NsPid
	t.ParentSignal = e.ExitSignal
	t.Login = engine.Login{UID: e.LoginUid, Session: e.AuditSession}
	t.NoNewPrivs, t.Seccomp = uint32(e.NoNewPrivs), min(uint32(e.Seccomp), unix.SECCOMP_MODE_FILTER)
}

// text is the Go type of the programs' struct text.
type text struct {
	length uint32
	form   programsTextForm
}

// textFields is the order of the texts in a record.
var textFields = [...]engine.Field{engine.FieldArgs, engine.FieldExe, engine.FieldCwd, engine.FieldCgroup, engine.FieldExecPath}

// headersEnd is the end of the headers of the texts, where the executable begins.
const headersEnd = int(unsafe.Offsetof(programsTextEvent{}.Executable))

// This does not compile unless there are as many headers as fields.
var _ = [1]struct{}{}[headersEnd-eventSize-len(textFields)*int(unsafe.Sizeof(text{}))]

// decodeTexts decodes the texts, and returns the bytes that follow them.
func decodeTexts(ev *engine.RawEvent, record []byte) (rest []byte, err error) {
	if len(record) < textsSize {
		return nil, errSize
	}
	decodeExecutable(ev, record[headersEnd:textsSize])
	rest = record[textsSize:]
	for i, h := range textHeaders(record) {
		if uint64(h.length) > uint64(len(rest)) {
			return nil, errSize
		}
		if err := decodeText(ev, textFields[i], h.form, rest[:h.length]); err != nil {
			return nil, fmt.Errorf("%s: %w", textFields[i], err)
		}
		rest = rest[h.length:]
	}
	return rest, nil
}

// textHeaders returns the headers of the texts of a record.
func textHeaders(record []byte) (headers [len(textFields)]text) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&headers)), headersEnd-eventSize), record[eventSize:])
	return headers
}

func decodeExecutable(ev *engine.RawEvent, b []byte) {
	var x programsExecutable
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)), b)
	if x.Mode == 0 {
		return
	}
	ev.Before.EUID, ev.Before.EGID, ev.Before.Known = x.Euid, x.Egid, x.Opened != 0
	ev.Task.Known |= engine.FieldExeFile.Set()
	ev.Task.ExeFile = engine.ExeFile{
		Inode: x.Inode, Ctime: x.CtimeSec*1e9 + int64(x.CtimeNsec), Device: source.Device(x.Device),
		UID: x.Uid, GID: x.Gid, Mode: x.Mode, Removed: x.Links == 0,
	}
}

// decodeStdio decodes the standard streams, which follow the texts and a gap, and returns the bytes
// that follow the streams.
func decodeStdio(ev *engine.RawEvent, b []byte, gap int) (rest []byte, err error) {
	var streams [len(ev.Task.Stdio)]programsStream
	const size = int(unsafe.Sizeof(streams))
	if len(b) < gap+size {
		return nil, errSize
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&streams)), size), b[gap:])
	for i, x := range streams {
		f := source.File{Inode: x.Inode, Device: x.Device, Rdev: x.Rdev, Magic: x.Magic, Mode: x.Mode, Family: x.Detail, Unlisted: x.Detail != 0}
		ev.Task.Stdio[i] = f.Stream()
	}
	ev.Task.Known |= engine.FieldStdio.Set()
	return b[gap+size:], nil
}

func decodeText(ev *engine.RawEvent, f engine.Field, form programsTextForm, b []byte) error {
	cut := false
	switch form {
	case programsTextFormTEXT_UNKNOWN:
		return nil
	case programsTextFormTEXT_BYTES_CUT:
		cut = true
		fallthrough
	case programsTextFormTEXT_BYTES:
		if n := len(b); f != engine.FieldArgs && n > 0 && b[n-1] == 0 {
			b = b[:n-1] // a name; arguments keep their terminators
		}
		ev.Set(f, b)
	case programsTextFormTEXT_PATH_CUT:
		if len(b) == 0 {
			return nil // the programs could not read the text
		}
		cut = true
		fallthrough
	case programsTextFormTEXT_PATH:
		if len(b) > 0 && b[len(b)-1] != 0 {
			return errPath
		}
		joinPath(ev.Grow(f, pathLen(b, cut)), b)
	default:
		return errForm
	}
	if cut {
		ev.Task.Truncated |= f.Set()
	}
	return nil
}

// pathLen returns the length of the path with the components in b. A cut path has no leading slash,
// as its front is missing.
func pathLen(b []byte, cut bool) int {
	switch {
	case cut:
		return len(b) - 1
	case len(b) == 0:
		return 1 // the root
	}
	return len(b)
}

// joinPath writes the path with the components in b to dst, which has pathLen bytes. b has the
// path's last component first. Each component ends with NUL.
func joinPath(dst, b []byte) {
	if len(b) == 0 {
		dst[0] = '/'
		return
	}
	at := len(dst)
	for len(b) > 0 {
		n := bytes.IndexByte(b, 0)
		at -= copy(dst[at-n:at], b[:n])
		if at > 0 {
			at--
			dst[at] = '/'
		}
		b = b[n+1:]
	}
}
