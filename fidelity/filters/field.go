package filters

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// shown is what an event shows of a field that filters compare.
type shown struct {
	none    bool     // it has no such field
	unknown bool     // its value is not known
	inexact bool     // nor how a filter sees it
	values  []string // one is enough
}

// field is one that filters compare.
type field struct {
	name    string
	compare comparison
	unit    string // of a number
	of      func(s *score.Seen) shown
}

type comparison uint8

const (
	number comparison = iota
	text
	path
	member // of a set
	device
)

// fields are all of them, apart from kinds of event, trees and poison.
func fields(host *engine.Host, bootOffset uint64) []field {
	list := []field{
		{"pid", number, "", func(s *score.Seen) shown { return shown{values: []string{fmt.Sprint(s.Process.PID)}} }},
		{"argv", text, "", list(engine.FieldCmdline, "")},
		{"env.A", text, "", list(engine.FieldEnviron, "A=")},
		{"privileges", member, "", func(s *score.Seen) shown {
			v := word(engine.FieldPrivileges, whole)(s)
			return v.members(strings.Split(strings.Join(v.values, ""), ","), s)
		}},
		{"exe_flags", member, "", func(s *score.Seen) shown {
			v := word(engine.FieldExecutable, whole)(s)
			if len(v.values) == 0 {
				return v.members(nil, s)
			}
			file := strings.Fields(v.values[0])
			mode, _ := strconv.ParseUint(file[3], 8, 16)
			var flags []string
			for name, set := range map[string]bool{"set_uid": mode&0o4000 != 0, "set_gid": mode&0o2000 != 0, "other_writable": mode&2 != 0, "removed": file[6] == "true"} {
				if set {
					flags = append(flags, name)
				}
			}
			return v.members(flags, s)
		}},
		{"entity_id", text, "", func(s *score.Seen) shown {
			id, known := s.Process.EntityID(host)
			return shown{unknown: !known, values: []string{id}}
		}},
		{"exit_code", number, "", ofEnd(engine.FieldExit, func(p *engine.Process) any {
			if p.Task.Exit.WaitStatus&0x7f != 0 {
				return nil // a signal ended it
			}
			return p.Task.Exit.WaitStatus >> 8 & 0xff
		})},
		{"signal", number, "", ofEnd(engine.FieldExit, func(p *engine.Process) any { return p.Task.Exit.WaitStatus & 0x7f })},
		{"duration", number, "ns", func(s *score.Seen) shown { return lived(s, bootOffset) }},
		{"errno", number, "", ofFailure(func(f *engine.FailedExec) (string, bool) { return fmt.Sprint(f.Errno), f.Errno != 0 })},
		{"failed_path", path, "", ofFailure(func(f *engine.FailedExec) (string, bool) { return f.Path, f.PathKnown && !f.PathCut })},
	}
	for name, get := range map[string]func(*engine.Usage) uint64{
		"cpu_time": func(u *engine.Usage) uint64 { return u.UserTime + u.SystemTime }, "user_time": func(u *engine.Usage) uint64 { return u.UserTime },
		"system_time": func(u *engine.Usage) uint64 { return u.SystemTime }, "peak_rss": func(u *engine.Usage) uint64 { return u.PeakRSS },
		"rchar": func(u *engine.Usage) uint64 { return u.RChar }, "wchar": func(u *engine.Usage) uint64 { return u.WChar },
		"read_bytes": func(u *engine.Usage) uint64 { return u.ReadBytes }, "write_bytes": func(u *engine.Usage) uint64 { return u.WriteBytes },
	} {
		of, unit := engine.FieldIO, ""
		switch {
		case strings.HasSuffix(name, "_time"):
			of, unit = engine.FieldCPUTime, "ns"
		case name == "peak_rss":
			of = engine.FieldPeakRSS
		}
		list = append(list, field{name, number, unit, ofEnd(of, func(p *engine.Process) any { return get(p.Usage) })})
	}
	for i, name := range []string{"container", "runtime", "pod"} {
		list = append(list, field{name, text, "", func(s *score.Seen) shown {
			c, known := s.Process.Container()
			return shown{unknown: !known, values: []string{[]string{c.ID, c.Runtime, c.Pod}[i]}}
		}})
	}
	for _, w := range []struct {
		name    string
		compare comparison
		f       engine.Field
		i       int // which word of the field's text
	}{
		{"ppid", number, engine.FieldPPID, 0}, {"pgid", number, engine.FieldPGID, 0}, {"sid", number, engine.FieldSID, 0},
		{"uid", number, engine.FieldUIDs, 0}, {"euid", number, engine.FieldUIDs, 1}, {"suid", number, engine.FieldSUID, 0},
		{"gid", number, engine.FieldGIDs, 0}, {"egid", number, engine.FieldGIDs, 1}, {"sgid", number, engine.FieldSGID, 0},
		{"login_uid", number, engine.FieldLogin, 0}, {"login_session", number, engine.FieldLogin, 1}, {"tty", device, engine.FieldTTY, 0},
		{"uts_ns", number, engine.FieldUTSNS, 0}, {"ipc_ns", number, engine.FieldIPCNS, 0}, {"mnt_ns", number, engine.FieldMntNS, 0},
		{"net_ns", number, engine.FieldNetNS, 0}, {"pid_ns", number, engine.FieldPIDNS, 0}, {"ns_pid", number, engine.FieldPIDNS, 1},
		{"user_ns", number, engine.FieldUserNS, 0}, {"cgroup_ns", number, engine.FieldCgroupNS, 0}, {"time_ns", number, engine.FieldTimeNS, 0},
		{"exe_device", device, engine.FieldExecutable, 0}, {"exe_inode", number, engine.FieldExecutable, 1},
		{"exe_uid", number, engine.FieldExecutable, 4}, {"exe_gid", number, engine.FieldExecutable, 5},
		{"comm", text, engine.FieldComm, whole}, {"exe", path, engine.FieldFilename, whole}, {"exec_path", path, engine.FieldExecPath, whole},
		{"cwd", path, engine.FieldCwd, whole}, {"cgroup", path, engine.FieldCgroup, whole}, {"entry", member, engine.FieldEntry, 0},
	} {
		list = append(list, field{w.name, w.compare, "", word(w.f, w.i)})
	}
	return list
}

const whole = -1

// word returns what shows a word of a field's text. The file of a kernel thread is known not to be.
func word(f engine.Field, i int) func(s *score.Seen) shown {
	return func(s *score.Seen) shown {
		p := s.Process
		switch {
		case !p.Known.Has(f) && p.IsKernelThread() && (f == engine.FieldFilename || f == engine.FieldExecPath):
			return shown{values: []string{""}}
		case !p.Known.Has(f) && p.IsKernelThread() && f == engine.FieldExecutable:
			return shown{none: true}
		case !p.Known.Has(f) || p.Truncated.Has(f):
			return shown{unknown: true}
		}
		v := truth.ValueOf(p, f)
		if i != whole {
			v = strings.Fields(v)[i]
		}
		return shown{values: []string{v}}
	}
}

// members returns what is shown of a set, whose text v is, with these members.
func (v shown) members(of []string, s *score.Seen) shown {
	if s.Process.IsKernelThread() {
		v, of = shown{}, nil
	}
	if v.values = of; len(of) == 0 || of[0] == "" {
		v.values = []string{"none"}
	}
	return v
}

// list returns what shows the texts of a field that begin with a prefix.
func list(f engine.Field, prefix string) func(s *score.Seen) shown {
	return func(s *score.Seen) (v shown) {
		p := s.Process
		v.unknown = !p.Known.Has(f) && !p.IsKernelThread()
		v.inexact = p.Truncated.Has(f)
		for _, text := range strings.SplitAfter(truth.ValueOf(p, f), "\x00") {
			if value, ok := strings.CutPrefix(text, prefix); ok && text != "" {
				v.values = append(v.values, strings.TrimSuffix(value, "\x00"))
			}
		}
		return v
	}
}

func isEnd(s *score.Seen) bool { return s.Events&(engine.EventExit|engine.EventGone) != 0 }

// ofEnd returns what shows something of the end of a process, nil if it is not there.
func ofEnd(f engine.Field, get func(*engine.Process) any) func(s *score.Seen) shown {
	return func(s *score.Seen) shown {
		switch p := s.Process; {
		case !isEnd(s):
			return shown{none: true}
		case !p.Known.Has(f):
			return shown{unknown: true}
		default:
			v := get(p)
			return shown{none: v == nil, values: []string{fmt.Sprint(v)}}
		}
	}
}

func ofFailure(get func(*engine.FailedExec) (string, bool)) func(s *score.Seen) shown {
	return func(s *score.Seen) shown {
		v, known := get(&s.Failed)
		return shown{none: !s.Events.Has(engine.EventExecFailed), unknown: !known, values: []string{v}}
	}
}

// lived shows how long a process lived that has ended.
func lived(s *score.Seen, bootOffset uint64) shown {
	p := s.Process
	switch {
	case !isEnd(s):
		return shown{none: true}
	case !p.Known.Has(engine.FieldExit):
		return shown{unknown: true}
	case !p.Known.Has(engine.FieldStart) || p.StartUnit > 1:
		return shown{inexact: true}
	}
	return shown{values: []string{fmt.Sprint(p.Task.Exit.Time - (p.Start - bootOffset))}}
}
