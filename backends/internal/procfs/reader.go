package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// MaxCmdline is how many bytes of a command line are read. A longer one is cut and marked as
// truncated. The eBPF backend cuts at the same length.
const MaxCmdline = 20480

// ErrVanished is the error of a process that is gone.
var ErrVanished = errors.New("read /proc: the process is gone")

var errMalformed = errors.New("read /proc/PID/stat: the text is invalid")

// Readable are the fields that a Reader can fill in: all but the exit status, the creator, the path
// passed to execve, the standard streams, and the resource usage.
const Readable = engine.AllFields &^ (1<<engine.FieldExit | 1<<engine.FieldBirthParentTID | 1<<engine.FieldExecPath | 1<<engine.FieldStdio | engine.FieldsUsage)

// Image are the fields that belong to the image of a process. An execve changes them together.
const Image = engine.Fields(1<<engine.FieldComm | 1<<engine.FieldExe | 1<<engine.FieldArgs | 1<<engine.FieldExeFile |
	1<<engine.FieldEnviron)

// Replaced are the fields that an execve can change.
const Replaced = Image | engine.FieldsIDs | 1<<engine.FieldCaps

const (
	fieldsStat = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID | 1<<engine.FieldPGID | 1<<engine.FieldSID |
		1<<engine.FieldTTY | 1<<engine.FieldComm | 1<<engine.FieldParentSignal)
	fieldsStatus = engine.FieldsIDs | 1<<engine.FieldCaps | 1<<engine.FieldPIDNS | 1<<engine.FieldNoNewPrivs | 1<<engine.FieldSeccomp
)

// paths are the fields with paths relative to the root directory of the process.
const paths = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldCwd)

// gone are the fields that an ended process has lost.
const gone = engine.FieldsNS&^(1<<engine.FieldUserNS) | paths | 1<<engine.FieldArgs | 1<<engine.FieldExeFile |
	1<<engine.FieldEnviron

// Status is what a read returns besides the fields of an event.
type Status struct {
	State      byte   // of the leader, as in /proc/PID/stat: 'R', 'S', 'Z' ...
	Threads    uint32 // in the thread group, including a leader that has ended
	ForkNoExec bool   // it has not executed another image since its fork
	Kthread    bool   // a kernel thread
	Worker     bool   // a thread that the kernel runs for its process, from Linux 5.12 on
	Ran        bool   // it has run since its fork
	// Thread is set if the task is no leader, or if another thread is about to take its place.
	Thread bool
	// Ending is set if the task has begun to end, or is about to: it runs no more code in user
	// space.
	Ending bool
	// Memory identifies the address space of an image by its addresses of code and stack. If
	// the kernel does not randomise these, two images can have the same Memory. It is 0 if
	// there is no address space, if the image is incomplete, or if the caller may not see it.
	Memory uint64
	// Ended is set if the process ended while it was read. It may have executed another image
	// meanwhile: the fields of [Replaced] may belong to two images.
	Ended bool
	comm  [16]byte
}

// Zombie reports whether the leader has ended.
func (s Status) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

// Over reports whether all threads of the process have ended: it is a zombie without living
// threads.
func (s Status) Over() bool { return s.Zombie() && s.Threads <= 1 }

// reader reads processes from /proc. Each read of a process can wait for any time, see [Reader].
type reader struct {
	// Sparing is set if Read skips expensive fields that rarely differ. It reads the login of
	// session leaders only, as a login makes a session too. It reads the user, cgroup and time
	// namespaces only if another namespace differs from the first process's. Scan reads all.
	Sparing bool

	proc int // descriptor of /proc
	path [48]byte
	buf  []byte
	dirs []byte   // directory entries
	pids []uint32 // of the directory being scanned

	root    []byte // the root directory of the process being read, empty for unknown
	rootBuf []byte
	rootAt  place // where it is
	ownRoot place // where this process's root is, during a scan
	// firstRoot is the root at the time when /proc was opened.
	firstRoot place
	firstNS   engine.Namespaces // without those that are read sparingly
	own       mounts

	// withoutMemory is set if the memory of the process is not to be read.
	withoutMemory bool

	// environ sets the environment, with the end possibly cut off; nil if it is not read.
	environ func(ev *engine.RawEvent, all []byte, cut bool)

	memfds uint64        // device of memfds, 0 for unknown
	hidden engine.Fields // fields with other values in this /proc
}

// Open returns a Reader of the /proc in the caller's mount namespace, which must belong to the
// initial pid namespace.
func Open() (*Reader, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w: mount proc on /proc", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return nil, errors.New("open /proc: it is not a proc file system: mount proc on /proc")
	}
	first, _ := placeOf(fd, pathOwnRoot)
	base := (&reader{proc: fd, memfds: memfdDevice(), firstRoot: first}).another()
	r := &Reader{reader: base, blocked: &blocked{extents: make(map[uint32]extent)}, patience: readPatience, limit: readLimit}
	if n, errno := readlinkat(fd, []byte("self\x00"), r.buf); errno != 0 || string(r.buf[:n]) != strconv.Itoa(os.Getpid()) {
		r.Close()
		return nil, errors.New("open /proc: it shows another pid namespace: mount proc on /proc in this one")
	}
	if !proctext.InInitialNamespace("cgroup") {
		r.hidden = engine.FieldCgroup.Set() // paths begin at the namespace's cgroup
	}
	if _, errno := statx(fd, []byte("self/loginuid\x00"), 0); errno != 0 {
		r.hidden |= engine.FieldLogin.Set() // the kernel has no CONFIG_AUDIT
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil && !bytes.Contains(status, []byte("\nSeccomp:")) {
		r.hidden |= engine.FieldSeccomp.Set() // the kernel has no CONFIG_SECCOMP
	}
	for _, ns := range namespaces {
		if !sparingly.Has(ns.field) {
			r.readNamespace(fd, append([]byte("1/"), ns.path...), ns.field, ns.in(&r.firstNS), new(engine.Task))
		}
		if _, errno := readlinkat(fd, append([]byte("self/"), ns.path...), r.buf); errno == unix.ENOENT {
			r.hidden |= ns.field.Set() // the kernel has none
		}
	}
	if inode, err := proctext.OwnNamespace("pid"); inode != proctext.InitialPIDNamespace || err != nil {
		r.hidden |= engine.FieldPIDNS.Set() // /proc has no pids of namespaces above
	}
	r.hidden |= engine.FieldEnviron.Set()
	r.start()
	return r, nil
}

// another returns a Reader of the same /proc, with buffers and a descriptor r.own.fd of its own.
func (r *reader) another() *reader {
	another := &reader{proc: r.proc, memfds: r.memfds, hidden: r.hidden, firstRoot: r.firstRoot, ownRoot: r.ownRoot, environ: r.environ,
		buf: make([]byte, MaxCmdline+1), dirs: make([]byte, 32<<10), rootBuf: make([]byte, maxLink)}
	fd, errno := openat(r.proc, pathOwnMountinfo, unix.O_RDONLY)
	if errno != 0 {
		fd = -1 // no mount is known to be there
	}
	another.own = mounts{fd: fd, ids: make(map[uint64]bool)}
	return another
}

// Readable returns the fields that r can fill in: [Readable] without the fields that /proc shows to
// this process with other values than the kernel reports.
func (r *reader) Readable() engine.Fields { return Readable &^ r.hidden }

// name returns a pid in decimal and suffix, with a final NUL.
func (r *reader) name(pid uint32, suffix string) []byte {
	b := strconv.AppendUint(r.path[:0], uint64(pid), 10)
	b = append(b, suffix...)
	return append(b, 0)
}

// readProcess reads a process, see [Reader.Read].
func (r *reader) readProcess(pid uint32, want engine.Fields, ev *engine.RawEvent) (Status, error) {
	want &^= r.hidden
	dir, errno := openat(r.proc, r.name(pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	if errno != 0 {
		return Status{}, ErrVanished
	}
	st, err := r.readAll(dir, pid, want, ev)
	closeFD(dir)
	return st, err
}

var (
	pathStat           = []byte("stat\x00")
	pathStatus         = []byte("status\x00")
	pathCmdline        = []byte("cmdline\x00")
	pathCgroup         = []byte("cgroup\x00")
	pathExe            = []byte("exe\x00")
	pathCwd            = []byte("cwd\x00")
	pathRoot           = []byte("root\x00")
	pathOwnRoot        = []byte("/\x00")
	pathMountNS        = []byte("ns/mnt\x00")
	pathOwnMountNS     = []byte("self/ns/mnt\x00")
	pathOwnMountinfo   = []byte("self/mountinfo\x00")
	pathMountinfo      = []byte("mountinfo\x00")
	pathFirstMountinfo = []byte("1/mountinfo\x00")
	pathSelf           = []byte(".\x00")
	pathLoginUID       = []byte("loginuid\x00")
	pathSessionID      = []byte("sessionid\x00")
	pathPIDNS          = []byte("ns/pid\x00")
	pathEnviron        = []byte("environ\x00")
)

var namespaces = [...]struct {
	field engine.Field
	path  []byte
	in    func(*engine.Namespaces) *uint32
}{
	{engine.FieldUTSNS, []byte("ns/uts\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.UTS }},
	{engine.FieldIPCNS, []byte("ns/ipc\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.IPC }},
	{engine.FieldMntNS, []byte("ns/mnt\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.Mnt }},
	{engine.FieldNetNS, []byte("ns/net\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.Net }},
	{engine.FieldUserNS, []byte("ns/user\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.User }},
	{engine.FieldCgroupNS, []byte("ns/cgroup\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.Cgroup }},
	{engine.FieldTimeNS, []byte("ns/time\x00"), func(ns *engine.Namespaces) *uint32 { return &ns.Time }},
}

func (r *reader) readAll(dir int, pid uint32, want engine.Fields, ev *engine.RawEvent) (Status, error) {
	// Each read returns the current text, so stat is opened only once.
	stat, errno := openat(dir, pathStat, unix.O_RDONLY)
	if errno != 0 {
		return Status{}, ErrVanished
	}
	defer closeFD(stat)
	st, err := r.readStat(stat, want, ev)
	if err != nil {
		return Status{}, err
	}
	t := &ev.Task
	// The task that has the image: the leader, or a thread if the leader has ended before it.
	image, imageStat, first := dir, stat, st
	switch {
	case st.Kthread:
		// A task without an image has an empty executable and command line.
		want &^= 1<<engine.FieldExe | 1<<engine.FieldArgs | 1<<engine.FieldExeFile | 1<<engine.FieldEnviron
	case st.Zombie():
		thread := -1
		if st.Threads > 1 && want&Image != 0 {
			thread, imageStat, first = r.openThread(pid)
		}
		if thread < 0 {
			want, imageStat, first = want&^gone, stat, st // comm outlives the image
			break
		}
		defer closeFD(thread)
		defer closeFD(imageStat)
		image, want = thread, want&^(gone&^Image)
	}
	if want&paths != 0 {
		r.readRoot(image)
	}
	if want.Has(engine.FieldExe) || want.Has(engine.FieldExeFile) {
		r.readExe(image, want, ev)
	}
	noCmdline := r.withoutMemory || want.Has(engine.FieldArgs) && !r.readCmdline(image, pathCmdline, ev)
	if want.Has(engine.FieldEnviron) && !r.withoutMemory {
		r.readEnviron(image, pathEnviron, first.Memory != 0, ev)
	}
	if want.Has(engine.FieldCwd) {
		r.readCwd(dir, ev)
	}
	if want&t.Known&paths != 0 && !r.rootIsSame(image) {
		t.Known &^= want & paths
	}
	if want&engine.FieldsNS != 0 {
		r.readNamespaces(dir, want, t)
	}
	if want.Has(engine.FieldLogin) && (!r.Sparing || t.Known.Has(engine.FieldSID) && t.SID == ev.PID) {
		r.readLogin(dir, t)
	}
	if want.Has(engine.FieldCgroup) {
		if b, ok := r.readFile(dir, pathCgroup); ok {
			// The kernel appends words to the path of a removed cgroup, which a process
			// that has ended can still be in. They could also be part of a name.
			if p, h := proctext.ParseCgroup(b); h != proctext.NoHierarchy && !deleted(p) {
				ev.Set(engine.FieldCgroup, p)
			}
		}
	}
	if want&fieldsStatus != 0 {
		if b, ok := r.readFile(dir, pathStatus); ok {
			if parseStatus(b, pid, want, t) {
				r.readNamespace(dir, pathPIDNS, engine.FieldPIDNS, &t.NS.PID, t)
			}
		}
	}
	if want&Replaced != 0 && !st.Kthread {
		again, err := r.readStat(imageStat, 0, ev)
		// A thread can execute in the place of a leader that has ended: then the thread
		// that was read is gone.
		st.Ended = err != nil || again.Zombie() && (!first.Zombie() || st.Threads > 1)
		if err == nil && !again.Zombie() && again.Memory != first.Memory {
			t.Known &^= want & Replaced
		}
		if err == nil && again.comm != first.comm {
			t.Known &^= want & (1 << engine.FieldComm)
		}
		if noCmdline && (first.Memory == 0 || again.Memory != first.Memory) {
			t.Known &^= want & Image
		}
		st.Memory = again.Memory
		if image == dir {
			st.ForkNoExec = err == nil && again.ForkNoExec
			if err == nil {
				st.State = again.State
			}
		}
	}
	return st, nil
}

// openThread opens a thread of process pid that has not ended, and its stat. The descriptors are
// -1 if there is none.
func (r *reader) openThread(pid uint32) (dir, stat int, st Status) {
	for _, tid := range r.Tasks(pid) {
		b := r.name(pid, "/task/")
		b = append(strconv.AppendUint(b[:len(b)-1], uint64(tid), 10), 0)
		dir, errno := openat(r.proc, b, unix.O_PATH|unix.O_DIRECTORY)
		if errno != 0 {
			continue
		}
		stat, errno := openat(dir, pathStat, unix.O_RDONLY)
		if errno == 0 {
			if st, err := r.readStat(stat, 0, new(engine.RawEvent)); err == nil && !st.Zombie() {
				return dir, stat, st
			}
			closeFD(stat)
		}
		closeFD(dir)
	}
	return -1, -1, Status{}
}

// readStat reads a file stat and sets the fields of want that it has in ev.
func (r *reader) readStat(stat int, want engine.Fields, ev *engine.RawEvent) (Status, error) {
	n, errno := pread(stat, r.buf, 0)
	if errno != 0 || n == 0 {
		return Status{}, ErrVanished
	}
	s, ok := proctext.ParseStat(r.buf[:n])
	if !ok {
		return Status{}, errMalformed
	}
	r.setStat(&s, want, ev)
	return status(&s), nil
}

func status(s *proctext.Stat) Status {
	st := Status{
		State: s.State, Threads: s.Threads,
		Ran:        s.State != 'R' || s.Faults > 0,
		Thread:     int32(s.ExitSignal) < 0,
		ForkNoExec: s.Flags&proctext.FlagForkNoExec != 0, Kthread: s.Flags&proctext.FlagKthread != 0,
		Worker: s.Flags&proctext.FlagIOWorker != 0,
		Ending: s.Ending(),
	}
	// An execve sets the address of the code nearly last, and then the address of the stack,
	// which until then equals the address of the arguments.
	if s.Stack != 0 && s.Code > 1 && s.Stack != s.Args {
		st.Memory = s.Code ^ bits.RotateLeft64(s.Stack, 32)
	}
	copy(st.comm[:], s.Comm)
	return st
}

// setStat sets the fields of want that stat has in ev.
func (r *reader) setStat(s *proctext.Stat, want engine.Fields, ev *engine.RawEvent) {
	t := &ev.Task
	if want.Has(engine.FieldStart) {
		t.Start, t.StartUnit = s.Start, engine.ProcStartUnit
	}
	if want.Has(engine.FieldPPID) {
		t.PPID = s.PPID
	}
	if want.Has(engine.FieldPGID) {
		t.PGID = s.PGID
	}
	if want.Has(engine.FieldSID) {
		t.SID = s.SID
	}
	if want.Has(engine.FieldTTY) {
		t.TTY = engine.TTY{Major: s.TTYMajor, Minor: s.TTYMinor}
	}
	if int32(s.ExitSignal) < 0 { // a thread, or a leader that a thread replaces
		want &^= engine.FieldParentSignal.Set()
	}
	if want.Has(engine.FieldParentSignal) {
		t.ParentSignal = s.ExitSignal
	}
	t.Known |= want & (fieldsStat &^ (1 << engine.FieldComm))
	if want.Has(engine.FieldComm) {
		ev.Set(engine.FieldComm, taskComm(s))
	}
}

// readFile reads a whole file of dir. The bytes are valid until the next read.
func (r *reader) readFile(dir int, pathNUL []byte) ([]byte, bool) {
	fd, errno := openat(dir, pathNUL, unix.O_RDONLY)
	if errno != 0 {
		return nil, false
	}
	defer closeFD(fd)
	n := 0
	for {
		got, errno := pread(fd, r.buf[n:], n)
		if errno != 0 {
			return nil, false
		}
		n += got
		// The kernel returns the whole text of these files, as far as it fits.
		if n < len(r.buf) {
			return r.buf[:n], n > 0
		}
		// status has a line with all supplementary groups, up to 65536.
		if n >= maxFile {
			return nil, false
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
}

// maxFile is more than the length of any text that is read.
const maxFile = 4 << 20

// readCmdline reports whether there was a command line. There is none while the image is being
// replaced (execve replaces the memory before it fills in the arguments), or if the process has
// hidden it.
func (r *reader) readCmdline(dir int, pathNUL []byte, ev *engine.RawEvent) bool {
	fd, errno := openat(dir, pathNUL, unix.O_RDONLY)
	if errno != 0 {
		return false
	}
	n, errno := read(fd, r.buf[:MaxCmdline+1])
	closeFD(fd)
	if errno != 0 || n == 0 {
		return false
	}
	if n > MaxCmdline {
		n = MaxCmdline
		ev.Task.Truncated |= engine.FieldArgs.Set()
	}
	ev.Set(engine.FieldArgs, r.buf[:n])
	return true
}

// readEnviron reads the environment. An empty environment is known only if the image is complete.
func (r *reader) readEnviron(dir int, pathNUL []byte, complete bool, ev *engine.RawEvent) {
	fd, errno := openat(dir, pathNUL, unix.O_RDONLY)
	if errno != 0 {
		return
	}
	n, errno := read(fd, r.buf[:MaxCmdline+1])
	closeFD(fd)
	if errno == 0 && (n > 0 || complete) {
		r.environ(ev, r.buf[:min(n, MaxCmdline)], n > MaxCmdline)
	}
}

func (r *reader) readNamespaces(dir int, want engine.Fields, t *engine.Task) {
	for i := range namespaces {
		ns := &namespaces[i]
		if want.Has(ns.field) && !(r.Sparing && sparingly.Has(ns.field) && r.inFirst(t)) {
			r.readNamespace(dir, ns.path, ns.field, ns.in(&t.NS), t)
		}
	}
}

// sparingly are the namespaces that Sparing skips.
const sparingly = engine.Fields(1<<engine.FieldUserNS | 1<<engine.FieldCgroupNS | 1<<engine.FieldTimeNS)

// inFirst reports whether the namespaces read so far are the first process's.
func (r *reader) inFirst(t *engine.Task) bool {
	ns := engine.Namespaces{UTS: t.NS.UTS, IPC: t.NS.IPC, Mnt: t.NS.Mnt, Net: t.NS.Net}
	return ns == r.firstNS || t.Known&engine.FieldsNS == 0
}

func (r *reader) readNamespace(dir int, path []byte, f engine.Field, to *uint32, t *engine.Task) {
	n, errno := readlinkat(dir, path, r.buf)
	if errno != 0 {
		return
	}
	if inode, ok := proctext.ParseNamespace(r.buf[:n]); ok {
		*to = inode
		t.Known |= f.Set()
	}
}

// readLogin reads the login. The kernel sets and unsets uid and session together. So readLogin
// reads the session only if the uid is set, and checks afterwards that the uid is unchanged.
func (r *reader) readLogin(dir int, t *engine.Task) {
	fd, errno := openat(dir, pathLoginUID, unix.O_RDONLY)
	if errno != 0 {
		return
	}
	defer closeFD(fd)
	login := engine.Login{UID: engine.LoginUnset, Session: engine.LoginUnset}
	uid, ok := r.number(fd)
	if ok && uid != engine.LoginUnset {
		login.UID = uid
		if session, errno := openat(dir, pathSessionID, unix.O_RDONLY); errno != 0 {
			ok = false
		} else {
			login.Session, ok = r.number(session)
			closeFD(session)
		}
		again, same := r.number(fd)
		ok = ok && same && again == uid
	}
	if ok {
		t.Login = login
		t.Known |= engine.FieldLogin.Set()
	}
}

// number reads the current number in a file.
func (r *reader) number(fd int) (uint32, bool) {
	n, errno := pread(fd, r.buf, 0)
	if errno != 0 {
		return 0, false
	}
	return proctext.Uint32(bytes.TrimSuffix(r.buf[:n], []byte{'\n'}))
}

// maxComm is the longest comm that the kernel keeps, TASK_COMM_LEN without the final NUL.
const maxComm = 15

// taskComm returns the comm as the kernel keeps it. For kernel threads /proc shows the full name,
// and for workers also their current work, after "+" or "-".
func taskComm(s *proctext.Stat) []byte {
	const worker = "kworker/"
	comm := s.Comm
	if s.Flags&proctext.FlagKthread == 0 {
		return comm
	}
	if id, ok := bytes.CutPrefix(comm, []byte(worker)); ok && !bytes.HasPrefix(id, []byte("R-")) {
		if i := bytes.IndexAny(id, "+-"); i >= 0 {
			comm = comm[:len(worker)+i]
		}
	}
	return comm[:min(len(comm), maxComm)]
}
