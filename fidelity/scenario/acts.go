package scenario

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// noPID is a pid that no process has. The kernel overwrites it with a real one.
const noPID = 1<<31 - 1

// Offsets in struct siginfo of waitid(2).
const (
	infoCode   = 8
	infoPID    = 16
	infoStatus = 24
)

// actor builds the system calls of one process of a script.
type actor struct {
	*process
	f       *play
	number  int
	dir     string        // its last own working directory, "" if shared
	program string        // its last own program, "" if shared
	root    string        // its root directory, "" for the director's
	n       int           // number of names made so far
	child   *process      // the last started child
	apart   bool          // its children are in a pid namespace that ends with the first child
	timed   bool          // its children, and itself after an exec, have another time namespace
	clone   *bare.Clone   // the call that started child
	waited  *bare.Memory  // result of the last waitid(2)
	mounts  bool          // it may have its own mount namespace
	hides   engine.Fields // fields whose value in /proc is wrong for other readers
	stdio   [3]string     // its standard streams after an exec, "" if unknown
}

// listCalls lists the system calls of a process that starter starts. addFirst, if not nil, adds
// calls at the start.
func (f *play) listCalls(l *script.Process, starter *actor, thread bool, addFirst func(*process)) *process {
	a := &actor{process: f.script(), f: f, number: f.scripted, mounts: starter.mounts, timed: starter.timed, root: starter.root, hides: starter.hides}
	f.scripted++
	if !thread { // the process can change the files of a thread at any time
		a.stdio = starter.stdio
	}
	p := a.process
	p.ignoresErrors, p.thread = true, thread
	p.stamp()
	// The kernel writes the ids after the two words of the first clock reading.
	p.self, p.childID = bare.Word{Script: p.Script, Call: 0, Index: 2}, bare.Word{Script: p.Script, Call: 0, Index: 3}
	if addFirst != nil {
		addFirst(p)
	}
	for i := range l.Ops {
		op := &l.Ops[i]
		acts[op.Name](a, op)
	}
	p.stamp()
	if thread {
		p.ExitThread(0)
	} else {
		p.Exit(0)
	}
	return p
}

// acts maps each operation to the function that lists its system calls.
var acts map[string]func(*actor, *script.Op)

func init() {
	// Go rejects this as a declaration, as the functions refer to the map.
	acts = map[string]func(*actor, *script.Op){
		"exit": func(a *actor, op *script.Op) {
			a.code = number(op, 0)
			a.end(a.code)
		},
		"exit-thread": func(a *actor, op *script.Op) { a.endThread(number(op, 0)) },
		"raise":       (*actor).raise,
		"fork":        func(a *actor, op *script.Op) { a.start(op, 0) },
		"vfork":       func(a *actor, op *script.Op) { a.start(op, unix.CLONE_VM|unix.CLONE_VFORK) },
		"clone":       func(a *actor, op *script.Op) { a.start(op, 0) },
		"thread":      func(a *actor, op *script.Op) { a.start(op, threadFlags) },
		"exec":        func(a *actor, op *script.Op) { a.exec(op.Args[0], op.Args[1:]) },
		"exec-long":   func(a *actor, op *script.Op) { a.exec("absolute", []string{strings.Repeat("x", number(op, 0))}) },
		"exec-broken": (*actor).execBroken,
		"title":       (*actor).title,
		"wait": func(a *actor, op *script.Op) {
			a.stamp()
			a.f.waits = append(a.f.waits, wait{a.process, a.Len()})
			a.waited = &bare.Memory{Bytes: make([]byte, 128)} // struct siginfo
			a.call("waitid", unix.SYS_WAITID, unix.P_ALL, 0, bare.Within{Memory: a.waited}, unix.WEXITED|unix.WALL, nil).stamp()
		},
		"kill": func(a *actor, op *script.Op) {
			a.child.killable = true
			a.child.childID = bare.Word{Script: a.Script, Call: a.Len(), Index: 0}
			a.clone.ParentTID = a.child.childID
			a.call("kill", unix.SYS_KILL, noPID, script.Signals[op.Args[0]])
		},
		"pause": func(a *actor, op *script.Op) { a.pause(false) },
		"trace": func(a *actor, op *script.Op) { a.pause(true) },
		"setresuid": func(a *actor, op *script.Op) {
			a.setIDs(engine.ChangedUID, "setresuid", unix.SYS_SETRESUID, number(op, 0), number(op, 1), number(op, 2))
		},
		"setresgid": func(a *actor, op *script.Op) {
			a.setIDs(engine.ChangedGID, "setresgid", unix.SYS_SETRESGID, number(op, 0), number(op, 1), number(op, 2))
		},
		"setfsuid": func(a *actor, op *script.Op) {
			a.event(truth.Record{Op: truth.IDs, ID: engine.ChangedUID, Optional: true, Unchanged: true}, "setfsuid", unix.SYS_SETFSUID, number(op, 0))
		},
		"comm":   func(a *actor, op *script.Op) { a.setComm(op.Args[0]) },
		"setsid": func(a *actor, op *script.Op) { a.setsid() },
		"setpgid": func(a *actor, op *script.Op) {
			was := ownGroup(a.process)
			a.event(truth.Record{Op: truth.IDs, ID: engine.ChangedPGID}, "setpgid", unix.SYS_SETPGID, 0, 0)
			s := &a.steps[len(a.steps)-1]
			s.leads, s.was, s.probes = true, []probe{was}, []probe{ownGroup(a.process)}
		},
		"unshare": func(a *actor, op *script.Op) {
			a.mayFail = true
			a.unshare(op.Args[0])
		},
		"setns": func(a *actor, op *script.Op) { // back to the director's namespace
			ns := namespaces[op.Args[0]]
			fd, err := unix.Open("/proc/self/"+ns.link, unix.O_RDONLY, 0)
			if err != nil {
				a.f.skip("open a namespace: %v", err)
			}
			a.switchNS(op.Args, "setns", unix.SYS_SETNS, a.f.keep(fd, nil), ns.flag)
		},
		"stdio": (*actor).connect,
		"cgroup": func(a *actor, op *script.Op) {
			g := a.f.newCgroup()
			r := truth.Record{Op: truth.Cgroup, Open: engine.FieldCgroup.Set()}
			r.State.Set(engine.FieldCgroup, g.path)
			a.event(r, "write", unix.SYS_WRITE, g.procs, "0", 1)
		},
		"login": (*actor).login,
		"chdir": func(a *actor, op *script.Op) {
			// Each chdir needs a new directory, as a child may still be in the previous
			// one.
			a.dir = a.f.mkdir(a.name(), a.next("dir"), op.Args[0])
			a.chdir(a.dir)
		},
		"rename": func(a *actor, op *script.Op) {
			to := filepath.Join(a.f.dir, a.name(), a.next("renamed"))
			a.moved(engine.FieldCwd, "cwd", "renameat", unix.SYS_RENAMEAT, unix.AT_FDCWD, a.in(a.dir), unix.AT_FDCWD, a.in(to))
			a.dir = to
		},
		"rmdir": func(a *actor, op *script.Op) {
			a.moved(engine.FieldCwd, "cwd", "unlinkat", unix.SYS_UNLINKAT, unix.AT_FDCWD, a.in(a.dir), unix.AT_REMOVEDIR)
		},
		"bind": func(a *actor, op *script.Op) {
			from, to := a.f.mkdir(a.name(), "from"), a.f.mkdir(a.name(), op.Args[0])
			unshared := a.unshare("mnt")
			private := a.Len()
			a.call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
			a.call("bind", unix.SYS_MOUNT, a.in(from), a.in(to), nil, unix.MS_BIND, nil)
			a.chdir(to)
			a.SkipUnless(unshared, private) // else the mount would affect all processes
		},
		"chroot": func(a *actor, op *script.Op) {
			// chroot(2) also changes the reported paths, as they are relative to the
			// root.
			s := a.change(engine.SetOf(engine.FieldExe, engine.FieldCwd), "chroot", unix.SYS_CHROOT, a.in(a.f.dir))
			s.probes = append(s.probes, linked(a.process, engine.FieldExe, "exe"), linked(a.process, engine.FieldCwd, "cwd"))
			entered := s.call
			a.root, a.hides = a.f.dir, a.hides|engine.SetOf(engine.FieldExe, engine.FieldCwd)
			a.chdir(a.f.mkdir(a.name()))
			a.SkipUnless(entered)
		},
		"unlink-program": func(a *actor, op *script.Op) {
			a.unsettled(engine.FieldExeFile.Set()) // the removal changes the ctime
			a.moved(engine.FieldExe, "exe", "unlinkat", unix.SYS_UNLINKAT, unix.AT_FDCWD, a.in(a.program), 0)
		},
		"rename-program": func(a *actor, op *script.Op) {
			to := filepath.Join(a.f.dir, a.name()+a.next("renamed"))
			a.unsettled(engine.FieldExeFile.Set())
			a.moved(engine.FieldExe, "exe", "renameat", unix.SYS_RENAMEAT, unix.AT_FDCWD, a.in(a.program), unix.AT_FDCWD, a.in(to))
			a.program = to
		},
		"core": func(a *actor, op *script.Op) {
			there := a.chdir(a.f.mkdir(a.name()))
			a.call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{{Cur: 64 << 20, Max: 64 << 20}}, nil)
			a.SkipUnless(there)
		},
		"seccomp-kill": (*actor).seccompKill,
		"yield":        func(a *actor, op *script.Op) { a.call("sched_yield", unix.SYS_SCHED_YIELD) },
		"sleep":        func(a *actor, op *script.Op) { a.sleep(number(op, 0)) },
	}
}

const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM

// number returns a numeric argument, which the script has checked.
func number(op *script.Op, i int) int {
	n, _ := strconv.Atoi(op.Args[i])
	return n
}

func (a *actor) name() string { return fmt.Sprint("p", a.number) }

func (a *actor) next(what string) string {
	a.n++
	return fmt.Sprint(what, a.n)
}

// change appends a system call that changes fields without an event, and the record of the new
// values. The values during the call are not recorded, as another thread may execute a program.
func (a *actor) change(fields engine.Fields, name string, number uintptr, args ...any) *step {
	a.unsettled(fields)
	a.call(name, number, args...)
	at := a.stamp()
	a.steps = append(a.steps, step{call: at - 1, before: at, noNext: true, record: truth.Record{Op: truth.Now, Open: fields}})
	return &a.steps[len(a.steps)-1]
}

// moved appends a system call that changes the target of a link in /proc, and returns its index.
func (a *actor) moved(field engine.Field, link, name string, number uintptr, args ...any) int {
	s := a.change(field.Set(), name, number, args...)
	s.probes = append(s.probes, linked(a.process, field, link))
	return s.call
}

func (a *actor) chdir(dir string) int {
	return a.moved(engine.FieldCwd, "cwd", "chdir", unix.SYS_CHDIR, a.in(dir))
}

// in converts a path below the script's directory to a path from the process's root. If chroot
// failed, no file has the result.
func (a *actor) in(path string) string { return cmp.Or(strings.TrimPrefix(path, a.root), "/") }

type namespace struct {
	flag  int
	field engine.Field
	link  string // name in /proc/PID
	bit   engine.NSSet
	own   string // the name of the namespace that unshare(2) changes, if not link
}

var namespaces = map[string]namespace{
	"uts":      {unix.CLONE_NEWUTS, engine.FieldUTSNS, "ns/uts", engine.ChangedUTS, ""},
	"ipc":      {unix.CLONE_NEWIPC, engine.FieldIPCNS, "ns/ipc", engine.ChangedIPC, ""},
	"mnt":      {unix.CLONE_NEWNS, engine.FieldMntNS, "ns/mnt", engine.ChangedMnt, ""},
	"net":      {unix.CLONE_NEWNET, engine.FieldNetNS, "ns/net", engine.ChangedNet, ""},
	"user":     {unix.CLONE_NEWUSER, engine.FieldUserNS, "ns/user", engine.ChangedUser, ""},
	"cgroupns": {unix.CLONE_NEWCGROUP, engine.FieldCgroupNS, "ns/cgroup", engine.ChangedCgroup, ""},
	"time":     {unix.CLONE_NEWTIME, engine.FieldTimeNS, "ns/time", engine.ChangedTime, ""},
	"pid":      {unix.CLONE_NEWPID, engine.FieldPIDNS, "ns/pid", engine.ChangedPID, "ns/pid_for_children"},
}

// index returns the number of the bit.
func (ns *namespace) index() int { return bits.TrailingZeros8(uint8(ns.bit)) }

// available reports whether the kernel has namespaces of this kind.
func (ns namespace) available() bool {
	_, err := os.Lstat("/proc/self/" + ns.link)
	return err == nil
}

func (ns *namespace) changes() engine.Fields {
	if ns.field == engine.FieldUserNS {
		return ns.field.Set().With(engine.FieldCaps)
	}
	return ns.field.Set()
}

// probe returns a probe of the process's own view of its namespace.
func (ns *namespace) probe(p *process) probe {
	getpid := p.Len()
	if ns.field != engine.FieldPIDNS {
		return linked(p, ns.field, ns.link)
	}
	p.call("getpid", unix.SYS_GETPID)
	s := linked(p, ns.field, ns.link)
	link := s.read
	s.read = func(p *process, call, n int) truth.State {
		s := link(p, call, n)
		pid, _ := p.run.Result(p.number, getpid)
		s.Set(engine.FieldPIDNS, fmt.Sprint(s.Value[engine.FieldPIDNS], " ", pid))
		return s
	}
	return s
}

// ownGroup returns a probe of the process group, as the process's pid namespace numbers it.
func ownGroup(p *process) probe {
	p.call("getpgid", unix.SYS_GETPGID, 0)
	return probe{engine.FieldPGID.Set(), p.Len() - 1, func(_ *process, _, group int) (s truth.State) {
		s.Set(engine.FieldPGID, itoa(group))
		return s
	}}
}

// unshare appends the calls to enter a new namespace, and returns the index of unshare(2).
func (a *actor) unshare(name string) int {
	ns := namespaces[name]
	if !ns.available() {
		a.f.skip("the kernel has no %s namespaces", strings.TrimSuffix(name, "ns"))
	}
	switch name {
	case "pid":
		a.apart = true
	case "time": // no event, as only future children and execs have the new namespace
		a.timed = true
		s := a.change(ns.changes(), "unshare", unix.SYS_UNSHARE, ns.flag)
		s.probes = append(s.probes, ns.probe(a.process))
		return s.call
	case "mnt":
		a.mounts = true
	}
	return a.switchNS([]string{name}, "unshare", unix.SYS_UNSHARE, ns.flag)
}

// setIDs appends a system call that sets user or group ids, possibly to their current values.
func (a *actor) setIDs(which engine.IDChange, name string, number uintptr, args ...any) {
	was := ids(a.process, which)
	a.event(truth.Record{Op: truth.IDs, ID: which}, name, number, args...)
	s := &a.steps[len(a.steps)-1]
	s.probes, s.was = []probe{ids(a.process, which)}, []probe{was}
}

func (a *actor) sleep(micros int) {
	a.call("nanosleep", unix.SYS_NANOSLEEP, []unix.Timespec{unix.NsecToTimespec(int64(micros) * 1000)}, nil)
}

// login appends a change of the login uid, which the kernel may reject. The files that it opens get
// the lowest descriptor, 0.
func (a *actor) login(op *script.Op) {
	a.mayFail = true
	uid := strconv.FormatUint(uint64(uint32(number(op, 0))), 10)
	saved := a.f.keep(unix.Open("/dev/null", unix.O_RDONLY, 0)) // reserves a number
	if a.stdio[0] == truth.Closed {                             // then 0 becomes this file
		a.stdio[0] = truth.StreamOf(saved)
	}
	a.unsettled(engine.FieldLogin.Set())
	a.call("dup3", unix.SYS_DUP3, 0, saved, 0).call("close", unix.SYS_CLOSE, 0)
	a.call("openat", unix.SYS_OPENAT, procFD, "self/loginuid", unix.O_WRONLY)
	wrote := a.Len()
	a.call("write loginuid", unix.SYS_WRITE, 0, uid, len(uid))
	a.call("close", unix.SYS_CLOSE, 0)
	a.call("openat", unix.SYS_OPENAT, procFD, "self/sessionid", unix.O_RDONLY)
	session := a.Len()
	a.call("read", unix.SYS_READ, 0, bare.Buffer(16), 16).call("dup3", unix.SYS_DUP3, saved, 0, 0)
	at := a.stamp()
	a.steps = append(a.steps, step{call: session, before: at, noNext: true, record: truth.Record{Op: truth.Now, Open: engine.FieldLogin.Set()},
		probes: []probe{{engine.FieldLogin.Set(), session, func(p *process, session, n int) (s truth.State) {
			// A failed write is not recorded: another user namespace shows other uids.
			if result, ok := p.run.Result(p.number, wrote); ok && result > 0 {
				s.Set(engine.FieldLogin, uid+" "+string(p.run.Bytes(p.number, session, 1, n)))
			}
			return s
		}}}})
}

// connect appends the replacement of a standard stream. A closed one is open until the next exec.
func (a *actor) connect(op *script.Op) {
	n := slices.Index(script.Streams, op.Args[0])
	fd, flags := a.f.openStream(op.Args[1]), 0
	a.stdio[n] = truth.StreamOf(fd)
	if op.Args[1] == "closed" {
		a.stdio[n], flags = truth.Closed, unix.O_CLOEXEC
	}
	a.change(engine.FieldStdio.Set(), "dup3", unix.SYS_DUP3, fd, n, flags)
}

// openStream opens a file of a type, for this and following programs.
func (f *play) openStream(what string) (fd int) {
	path := filepath.Join(f.dir, "stream")
	f.must(os.WriteFile(path, nil, 0o600))
	switch what {
	case "tty":
		return f.keep(unix.Dup(f.terminal()))
	case "pipe":
		return f.inherited().r
	case "unix":
		return f.keep(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	case "inet":
		return f.keep(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))
	case "memfd":
		return f.keep(unix.MemfdCreate("stream", 0))
	case "epoll":
		return f.keep(unix.EpollCreate1(0))
	case "null", "closed":
		path = os.DevNull
	case "zero":
		path = "/dev/zero"
	case "directory":
		path = f.dir
	case "path":
		return f.keep(unix.Open(path, unix.O_PATH, 0))
	case "removed":
		defer os.Remove(path)
	}
	return f.keep(unix.Open(path, unix.O_RDONLY, 0))
}

// raise appends a signal to the process itself, which may end it.
func (a *actor) raise(op *script.Op) {
	a.stamp()
	a.self = bare.Word{Script: a.Script, Call: a.Len(), Index: 0}
	a.call("kill", unix.SYS_KILL, noPID, script.Signals[op.Args[0]])
	a.sleep(10_000)
}

// pause lets the process wait until the director has read its state.
func (a *actor) pause(trace bool) {
	s := &pausePoint{a.process, a.f.inherited(), trace, a.hides}
	a.stamp()
	a.call("write", unix.SYS_WRITE, a.f.ready.w, []uint32{uint32(len(a.f.pauses))}, 4)
	a.WaitFor(s.goOn.r)
	a.f.pauses = append(a.f.pauses, s)
}

// start appends the start of a process or thread.
func (a *actor) start(op *script.Op, flags uint64) {
	var fresh engine.Fields
	var begin []func(p *process)
	var pid, group any // nil if not requested
	signal := unix.Signal(0)
	for _, how := range slices.Compact(slices.Sorted(slices.Values(op.Args))) {
		switch how {
		case "parent":
			flags |= unix.CLONE_PARENT
		case "again":
			if a.waited != nil {
				pid = bare.Within{Memory: a.waited, Offset: infoPID}
			}
		case "cgroup":
			g := a.f.newCgroup()
			a.mayFail = true
			group, fresh = g.fd, fresh|engine.FieldCgroup.Set()
			begin = append(begin, func(p *process) {
				var in truth.State
				in.Set(engine.FieldCgroup, g.path)
				p.setState(in)
			})
		case "memory":
			flags |= unix.CLONE_VM
		case "signal":
			signal = unix.SIGURG // ignored by default
		default:
			flags |= uint64(namespaces[how].flag)
		}
	}
	thread := flags&unix.CLONE_THREAD != 0
	for how, ns := range namespaces {
		if !slices.Contains(op.Args, how) && (thread || !(how == "pid" && a.apart || how == "time" && a.timed)) {
			continue
		}
		fresh |= ns.changes()
		begin = append(begin, func(p *process) {
			p.setState(truth.State{})
			s := &p.steps[len(p.steps)-1]
			s.probes = append(s.probes, ns.probe(p))
		})
	}
	if !thread {
		// Later operations must not rename or remove files that the new process shares, as
		// no record would show the effect on it.
		a.dir, a.program = "", ""
	}
	by := *a
	by.mounts = a.mounts || slices.Contains(op.Args, "mnt")
	by.timed = a.timed || slices.Contains(op.Args, "time")
	c := a.f.listCalls(op.Process, &by, thread, func(p *process) {
		for _, b := range begin {
			b(p)
		}
	})
	// clone(2) uses the bits of CLONE_NEWTIME for the exit signal.
	c.fresh, c.flags, c.killable = fresh, uintptr(flags&^unix.CLONE_NEWTIME), a.apart && !thread
	clone := &bare.Clone{
		Flags: flags | unix.CLONE_CHILD_SETTID | unix.CLONE_PARENT_SETTID, Signal: signal,
		ChildTID: c.self, ParentTID: c.childID, SetTID: pid, Cgroup: group,
	}
	if flags&unix.CLONE_PARENT == 0 {
		c.flags |= uintptr(signal)
	}
	what := truth.Fork
	if thread {
		what = truth.ThreadStart
	} else {
		a.child, a.clone = c, clone
	}
	a.startOther(c, what, func() { a.Clone(c.Script, clone) })
}

// exec appends the execution of a program that continues with the script, and returns the index of
// the system call.
func (a *actor) exec(how string, argv []string) int {
	path := filepath.Join(a.f.dir, a.name()+a.next("program"))
	mode, owner, at, fd := os.FileMode(0o755), 0, a.in(path), -1
	whole := argv
	if how == "unlinked" && a.mounts || how == "relative" && a.thread {
		// Both ways would fail: the open file would be on a mount of another namespace, and
		// a thread does not change the directory.
		how = "absolute"
	}
	switch how {
	case "relative":
		a.chdir(a.f.dir)
		at = "./" + filepath.Base(path)
	case "link":
		a.f.must(os.Symlink(at, path+" link"))
		at += " link"
	case "interpreter":
		a.f.must(os.WriteFile(path+".script", []byte("#!"+at+" -s\n"), 0o755))
		whole = append([]string{at, "-s", at + ".script"}, argv[min(1, len(argv)):]...)
		at += ".script"
	case "setuid":
		mode, owner = 0o755|os.ModeSetuid, 1234
	case "setgid":
		mode, owner = 0o755|os.ModeSetgid, 1235
	case "missing":
		at += " missing"
	case "memfd":
		fd = a.f.keep(unix.MemfdCreate("program", 0))
	}
	r := truth.Record{Op: truth.Exec}
	if len(whole) > 0 {
		r.State.Set(engine.FieldArgs, cmdline(whole))
	}
	if len(r.State.Value[engine.FieldArgs]) > 16<<10 {
		r.MayCut = engine.FieldArgs.Set()
	}
	if !slices.Contains(a.stdio[:], "") {
		r.State.Set(engine.FieldStdio, strings.Join(a.stdio[:], " "))
	}
	before := a.stamp()
	a.steps = append(a.steps, step{call: a.Len(), before: before, record: r})
	s := &a.steps[len(a.steps)-1]
	s.record.State.Set(engine.FieldExecPath, at)
	switch how {
	case "memfd", "unlinked":
		if how == "unlinked" {
			fd = a.f.keep(unix.Open("/dev/null", unix.O_RDONLY, 0)) // reserves a number
		}
		s.record.State.Set(engine.FieldExecPath, fmt.Sprint("/dev/fd/", fd))
		a.ExecFD(fd, argv, nil)
	default:
		a.Exec(at, argv, nil)
	}
	a.program = path
	written := func(elf []byte) error {
		if how == "memfd" {
			// The function runs again if the first way to start the process failed.
			_, err := unix.Pwrite(fd, elf, 0)
			return err
		}
		if err := os.WriteFile(path, elf, 0o755); err != nil {
			return err
		}
		if owner != 0 {
			if err := os.Chown(path, owner, owner); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}
		if how == "unlinked" {
			return a.f.openUnlinked(path, fd)
		}
		return nil
	}
	execution := len(a.steps) - 1
	a.Resume(func(elf []byte) error {
		if err := written(elf); err != nil {
			return err
		}
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		if fd < 0 {
			err = unix.Stat(path, &st)
		}
		a.steps[execution].record.State.Set(engine.FieldExeFile, truth.ExecutableOf(&st))
		return err
	})
	a.stamp()
	s.probes = []probe{named(a.process), linked(a.process, engine.FieldExe, "exe"), ids(a.process, engine.ChangedUID), ids(a.process, engine.ChangedGID)}
	if a.thread {
		// The process gets the thread's namespaces and, if the leader has a directory of
		// its own, the thread's directory.
		s.probes = append(s.probes, linked(a.process, engine.FieldCwd, "cwd"))
		open := func(*process, int, int) truth.State { return truth.State{} }
		s.probes = append(s.probes, probe{engine.FieldLogin.Set(), s.call, open})
		for name, ns := range namespaces {
			if name != "pid" {
				s.probes = append(s.probes, ns.probe(a.process))
			}
		}
	} else if a.timed {
		time := namespaces["time"]
		s.probes = append(s.probes, time.probe(a.process))
	}
	return s.call
}

// title appends the execution of a program that overwrites its arguments.
func (a *actor) title(op *script.Op) {
	execed := a.exec("absolute", []string{"title"})
	text := cmdline(op.Args)
	// /proc/PID/cmdline is empty if the arguments are in shared memory, so they are copied to
	// private memory at own.
	const own, room = 1 << 32, 2 * 4096
	begin, end := uint64(own), uint64(own+len(text))
	fd := a.f.keep(unix.MemfdCreate("title", 0))
	_, err := unix.Pwrite(fd, []byte(text), 0)
	a.f.must(err)
	a.call("mmap", unix.SYS_MMAP, own, room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED, -1, nil)
	a.call("pread64", unix.SYS_PREAD64, fd, own, len(text), 0)
	const at, none = 1 << 22, 1<<64 - 1<<32 // any address; no executable file
	// struct prctl_mm_map. Kernels before 5.2 require the heap behind the data.
	layout := []any{at, at + 1, at, at + 1, at + 2, at + 2, at, begin, end, end, end, nil, uint64(none)}
	a.call("prctl", unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_MAP, layout, 8*len(layout), 0)
	shown := step{call: a.Len() - 1, before: a.stamp(), noNext: true, record: truth.Record{Op: truth.Shown}}
	shown.record.State.Set(engine.FieldArgs, text)
	a.steps = append(a.steps, shown)
	a.hides = a.hides.With(engine.FieldArgs)
	a.SkipUnless(execed)
}

// execBroken appends the execution of a program with a segment that can't be mapped. The kernel
// detects this after it has removed the old image, so the process ends by SIGSEGV.
func (a *actor) execBroken(*script.Op) {
	path := filepath.Join(a.f.dir, a.name()+"broken")
	a.broken.Set(engine.FieldComm, commOf(filepath.Base(path)))
	a.broken.Set(engine.FieldExe, a.in(path))
	a.broken.Set(engine.FieldArgs, cmdline([]string{"broken"}))
	before := a.stamp()
	// The process enters the time namespace of its future children.
	open := setByExec | engine.FieldsIDs | engine.FieldParentSignal.Set() | engine.FieldTimeNS.Set()
	for _, r := range []truth.Record{
		{Op: truth.Now, Open: open},
		{Op: truth.IDs, ID: engine.ChangedUID, Open: engine.FieldsIDs, Optional: true},
		{Op: truth.IDs, ID: engine.ChangedGID, Open: engine.FieldsIDs, Optional: true},
	} {
		a.steps = append(a.steps, step{call: a.Len(), before: before, noNext: true, record: r})
	}
	a.Exec(a.in(path), []string{"broken"}, nil)
	a.Resume(func(elf []byte) error {
		// The segment is smaller in memory than in the file.
		binary.LittleEndian.PutUint64(elf[64+40:], 1)
		return os.WriteFile(path, elf, 0o755)
	})
}

// brokeAt returns the earliest time at which a broken program ended the process, 0 if something
// else may have ended it.
func (p *process) brokeAt(status unix.WaitStatus) uint64 {
	if p.broken.Known == 0 || status.Signal() != unix.SIGSEGV || p.killable || p.hasThreads() {
		return 0
	}
	last := p.steps[len(p.steps)-1]
	if _, returned := p.run.Result(p.number, last.call); returned {
		return 0
	}
	before, _ := p.run.Stamp(p.number, last.before)
	return before
}

func (p *process) hasThreads() bool {
	return slices.ContainsFunc(p.others, func(o *process) bool { return o.thread })
}

// openUnlinked opens a program as a reserved descriptor and removes its file.
func (f *play) openUnlinked(path string, number int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Dup3(fd, number, 0); err != nil {
		return err
	}
	return os.Remove(path)
}

// seccompKill appends a seccomp filter that kills the thread or process, and a call that triggers
// it.
func (a *actor) seccompKill(op *script.Op) {
	kill := uint32(unix.SECCOMP_RET_KILL_THREAD)
	if op.Args[0] == "process" {
		kill = unix.SECCOMP_RET_KILL_PROCESS
	}
	a.filterCall(unix.SYS_GETPPID, kill)
	a.stamp()
	a.call("getppid", unix.SYS_GETPPID)
}

// filterCall appends a seccomp filter that takes an action at one system call.
func (p *process) filterCall(number, action uint32) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	p.unsettled(engine.SetOf(engine.FieldNoNewPrivs, engine.FieldSeccomp))
	p.call("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	p.call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, []any{len(program), program})
	r := truth.Record{Op: truth.Now}
	r.State.Set(engine.FieldNoNewPrivs, "1")
	r.State.Set(engine.FieldSeccomp, itoa(unix.SECCOMP_MODE_FILTER))
	p.now(r)
}
