package truth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// State is the known state of a process at a time, as text of each field: see [ValueOf]. Only
// fields in Known have a text.
type State struct {
	Known engine.Fields
	Value [engine.NumFields]string
	// Container is the expected result of [ContainerOf], "" if unknown.
	Container string
}

// Set sets the value of a field.
func (s *State) Set(f engine.Field, v string) {
	s.Known = s.Known.With(f)
	s.Value[f] = v
}

// Overlay sets the known values of o.
func (s *State) Overlay(o *State) {
	if cgroup := engine.FieldCgroup; o.Container != "" || o.Known.Has(cgroup) && o.Value[cgroup] != s.Value[cgroup] {
		s.Container = o.Container
	}
	for f := range engine.Field(engine.NumFields) {
		if o.Known.Has(f) {
			s.Set(f, o.Value[f])
		}
	}
}

// Forget marks fields as unknown.
func (s *State) Forget(fields engine.Fields) {
	for f := range engine.Field(engine.NumFields) {
		if fields.Has(f) {
			s.Value[f] = ""
		}
	}
	if s.Known &^= fields; !s.Known.Has(engine.FieldCgroup) {
		s.Container = ""
	}
}

// MarshalJSON encodes fields by number, and values in base64, as they need not be UTF-8. Only other
// processes of this program read them.
func (s State) MarshalJSON() ([]byte, error) {
	m := make(map[engine.Field][]byte)
	for f := range engine.Field(engine.NumFields) {
		if s.Known.Has(f) {
			m[f] = []byte(s.Value[f])
		}
	}
	if s.Container != "" {
		m[engine.NumFields] = []byte(s.Container)
	}
	return json.Marshal(m)
}

// UnmarshalJSON decodes the output of MarshalJSON. Unknown fields are errors.
func (s *State) UnmarshalJSON(b []byte) error {
	var m map[engine.Field][]byte
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*s = State{}
	for f, v := range m {
		switch {
		case f < engine.NumFields:
			s.Set(f, string(v))
		case f == engine.NumFields:
			s.Container = string(v)
		default:
			return fmt.Errorf("no field %d", f)
		}
	}
	return nil
}

// Proc is an open directory /proc. It stays the same if the process changes its root or namespaces.
type Proc struct{ FD int }

// OpenProc opens /proc. Executed programs inherit the descriptor.
func OpenProc() (Proc, error) {
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return Proc{-1}, fmt.Errorf("open /proc: %w", err)
	}
	return Proc{fd}, nil
}

// Close closes the descriptor.
func (p Proc) Close() error { return unix.Close(p.FD) }

func (p Proc) file(name string) (string, error) {
	fd, err := unix.Openat(p.FD, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b, err := io.ReadAll(f)
	return string(b), err
}

// path returns the target of a link to a file.
func (p Proc) path(name string) (string, error) {
	v, err := p.link(name)
	return PathOf(v), err
}

// PathOf returns the path that a link in /proc shows, without the mark that the kernel adds to
// removed files.
func PathOf(link string) string {
	path, removed := strings.CutSuffix(link, " (deleted)")
	if memory, ok := strings.CutPrefix(path, "/memfd:"); ok && removed {
		return "memfd:" + memory
	}
	return path
}

func (p Proc) executable(name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(p.FD, name, &st, 0); err != nil {
		return "", err
	}
	return ExecutableOf(&st), nil
}

// ExecutableOf returns the text of the field executable for a file.
func ExecutableOf(st *unix.Stat_t) string {
	return fmt.Sprintf("%d:%d %d %d %o %d %d %t", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, st.Ctim.Nano(), st.Mode, st.Uid, st.Gid,
		st.Nlink == 0)
}

func (p Proc) link(name string) (string, error) {
	buf := make([]byte, os.Getpagesize()) // the kernel's longest link
	n, err := unix.Readlinkat(p.FD, name, buf)
	return string(buf[:max(n, 0)]), err
}

// Read returns the pid of a paused process, in the pid namespace of p, and its state from /proc.
// The name is a pid or "self".
func (p Proc) Read(name string) (pid int, s State, err error) {
	var first error
	get := func(read func(string) (string, error), what string) string {
		v, err := read(name + "/" + what)
		if err != nil && first == nil {
			first = fmt.Errorf("read /proc/%s/%s: %w", name, what, err)
		}
		return v
	}
	s.Set(engine.FieldComm, strings.TrimSuffix(get(p.file, "comm"), "\n"))
	s.Set(engine.FieldExe, get(p.path, "exe"))
	s.Set(engine.FieldCwd, get(p.path, "cwd"))
	s.Set(engine.FieldArgs, get(p.file, "cmdline"))
	if x := get(p.executable, "exe"); x != "" {
		s.Set(engine.FieldExeFile, x)
	}
	if x := stdio(name); x != "" {
		s.Set(engine.FieldStdio, x)
	}
	for i, ns := range []string{"uts", "ipc", "mnt", "net"} {
		s.Set(engine.FieldUTSNS+engine.Field(i), strings.Trim(get(p.link, "ns/"+ns), ns+":[]"))
	}
	for f, ns := range map[engine.Field]string{engine.FieldUserNS: "user", engine.FieldCgroupNS: "cgroup", engine.FieldTimeNS: "time"} {
		// Else the kernel lacks these namespaces.
		if v, err := p.link(name + "/ns/" + ns); !errors.Is(err, os.ErrNotExist) {
			s.Set(f, strings.Trim(v, ns+":[]"))
		}
	}
	if path, ok := CgroupOf(get(p.file, "cgroup")); ok {
		s.Set(engine.FieldCgroup, path)
	}
	uid, err := p.file(name + "/loginuid")
	if !errors.Is(err, os.ErrNotExist) { // the kernel has CONFIG_AUDIT
		s.Set(engine.FieldLogin, uid+" "+get(p.file, "sessionid"))
	}
	stat, status := get(p.file, "stat"), get(p.file, "status")
	if first != nil {
		return 0, State{}, first
	}
	if pid, err = parseStat(stat, &s); err == nil {
		err = parseStatus(status, strings.Trim(get(p.link, "ns/pid"), "pid:[]"), &s)
	}
	if err != nil {
		return 0, State{}, fmt.Errorf("read /proc/%s: %w", name, err)
	}
	return pid, s, nil
}

// parseStat parses the fields after the last parenthesis: state, ppid, pgrp, session, tty_nr, ...;
// the start time is the 22nd field of the line.
func parseStat(stat string, s *State) (pid int, err error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 36 {
		return 0, fmt.Errorf("stat has %d fields", len(f))
	}
	number, _, _ := strings.Cut(stat, " ")
	if pid, err = strconv.Atoi(number); err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	s.Set(engine.FieldPPID, f[1])
	s.Set(engine.FieldPGID, f[2])
	s.Set(engine.FieldSID, f[3])
	tty, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	// The kernel's new_encode_dev.
	s.Set(engine.FieldTTY, fmt.Sprintf("%d:%d", tty>>8&0xfff, tty>>12&0xfff00|tty&0xff))
	s.Set(engine.FieldParentSignal, f[35])
	s.Set(engine.FieldStart, f[19]) // 1/100 s of CLOCK_BOOTTIME
	return pid, nil
}

func parseStatus(status, pidNS string, s *State) error {
	lines := make(map[string][]string)
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			lines[key] = strings.Fields(value)
		}
	}
	uid, gid := lines["Uid"], lines["Gid"] // real, effective, saved, file system
	if len(uid) != 4 || len(gid) != 4 {
		return fmt.Errorf("status has no ids")
	}
	s.Set(engine.FieldUIDs, uid[0]+" "+uid[1])
	s.Set(engine.FieldSUID, uid[2])
	s.Set(engine.FieldGIDs, gid[0]+" "+gid[1])
	s.Set(engine.FieldSGID, gid[2])
	var caps []string
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		caps = append(caps, strings.Join(lines[set], ""))
	}
	s.Set(engine.FieldCaps, strings.Join(caps, " "))
	for f, name := range map[engine.Field]string{engine.FieldNoNewPrivs: "NoNewPrivs", engine.FieldSeccomp: "Seccomp"} {
		if value := lines[name]; len(value) == 1 { // else the kernel lacks it
			s.Set(f, value[0])
		}
	}
	// The last pid is in the process's own namespace. A kernel without pid namespaces has no
	// such line.
	if pids := lines["NSpid"]; len(pids) > 0 {
		s.Set(engine.FieldPIDNS, pidNS+" "+pids[len(pids)-1])
	}
	return nil
}

// CgroupOf returns, from the text of /proc/PID/cgroup, the path that quark reports: of cgroup v2 if
// it is mounted, else of the pids controller.
func CgroupOf(cgroups string) (path string, ok bool) {
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			return f[2], true
		case f[1] == "pids":
			path, ok = f[2], true
		}
	}
	return path, ok
}

// ContainerOf returns quark's container id of a process, "?" if unknown.
func ContainerOf(p *engine.Process) string {
	c, known := p.Container()
	if !known {
		return "?"
	}
	return fmt.Sprintf("%s %s pod %s unit %s inside %s", c.Runtime, c.ID, c.Pod, c.Unit, c.Inside)
}

// ValueOf returns quark's value of a field as text. A right value is equal to the text in State.
func ValueOf(p *engine.Process, f engine.Field) string {
	switch f {
	case engine.FieldComm:
		return p.Comm
	case engine.FieldExe:
		return p.Image.Exe
	case engine.FieldExecPath:
		return p.ExecPath
	case engine.FieldArgs:
		return string(p.Image.Args)
	case engine.FieldEnviron:
		return string(p.Environ)
	case engine.FieldCwd:
		return p.Cwd
	case engine.FieldCgroup:
		return p.Cgroup
	case engine.FieldPrivileges:
		return p.Privileges.String()
	case engine.FieldEntryLeader:
		return fmt.Sprint(p.EntryType, " ", p.EntryLeader.PID)
	}
	text, _ := p.Task.NumberText(f)
	return text
}
