package ctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/schema"
)

// Each member of each event has the same value in Python as in Go.
func TestMembers(t *testing.T) {
	own, _ := recordings(t)
	more := samples(t)
	for _, file := range []string{own, write(t, "growing.trace", record(t, growing())), more[0], more[len(more)-1]} {
		out := json.NewDecoder(bytes.NewReader(python(t, "testdata/members.py", file)))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		q := replay(t, b)
		filled := make(map[string]bool)
		drain(t, q, func(ev *quark.Event) {
			var got map[string]string
			if err := out.Decode(&got); err != nil {
				t.Fatal(err)
			}
			for name, value := range got {
				name = partNumber.ReplaceAllString(name, "part")
				filled[name] = filled[name] || value != "0" && value != "None"
			}
			if diff := cmp.Diff(eventMembers(ev, q.Clock()), got); diff != "" {
				t.Errorf("%s: %v: %s", file, ev.Events, diff)
			}
		})
		if out.More() {
			t.Errorf("%s: there are more events in C", file)
		}
		if file == own {
			// The comparison above does not notice a member that both languages lack.
			for name, ok := range filled {
				if !ok && !never[name] {
					t.Errorf("%s is never set in the recording", name)
				}
			}
		}
	}
}

var partNumber = regexp.MustCompile(`^part\d`)

// never are the members without a value in the recording.
var never = map[string]bool{"thread": true, "tracer_pid": true, "tracer_tid": true, "cgroup_change_by_pid": true, "cgroup_change_by_start": true, "old_ppid": true, "cpu": true, "part.cpu": true, "process.inferred": true,
	"exec_failed_path_cached": true, "exec_failed_path_truncated": true}

// values are the members of a structure by their names in C.
type values map[string]string

// set sets a member to a value if the value is known, else to the value in C.
func (v values) set(name string, known bool, value any) {
	switch {
	case !known && reflect.TypeOf(value).Kind() == reflect.String && name != "process.comm":
		v[name] = "None"
	case !known && reflect.TypeOf(value).Kind() == reflect.String:
		v[name] = ""
	case !known:
		v[name] = "0"
	case reflect.TypeOf(value).Kind() == reflect.Bool:
		v[name] = "0"
		if value.(bool) {
			v[name] = "1"
		}
	default:
		v[name] = fmt.Sprint(value)
	}
}

// latin1 decodes a string as Python does.
func latin1[T string | []byte](s T) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// derivedLast returns the set with the field bits of quark.h, where derived fields come last.
func derivedLast(fields quark.Fields) (mask uint64) {
	for f := range quark.Field(quark.NumFields) {
		switch {
		case !fields.Has(f):
		case f == quark.FieldEntryLeader:
			mask |= 1 << 62
		case f == quark.FieldPrivileges:
			mask |= 1 << 63
		default:
			mask |= 1 << f
		}
	}
	return mask
}

func eventMembers(ev *quark.Event, clock *quark.Clock) map[string]string {
	v := make(values)
	gap, failed := ev.Events.Has(quark.EventGap), ev.Events.Has(quark.EventExecFailed)
	v.set("events", true, uint32(ev.Events))
	v.set("time", true, ev.Wall.UnixNano())
	v.set("time_monotonic", true, ev.Time)
	v.set("id_change", true, uint8(ev.IDChange))
	old := &ev.NSChange.Old
	v.set("ns_change", true, uint8(ev.NSChange.Changed))
	v.set("ns_change_new_pid", true, ev.NSChange.NewPID)
	v.set("ns_change_old_uts", true, old.UTS)
	v.set("ns_change_old_ipc", true, old.IPC)
	v.set("ns_change_old_mnt", true, old.Mnt)
	v.set("ns_change_old_net", true, old.Net)
	v.set("ns_change_old_pid", true, old.PID)
	v.set("ns_change_old_user", true, old.User)
	v.set("ns_change_old_cgroup", true, old.Cgroup)
	v.set("ns_change_old_time", true, old.Time)
	v.set("cpu", true, ev.CPU)
	v.set("tid", true, ev.TID)
	v.set("thread", true, ev.Thread)
	v.set("tracer_pid", true, ev.Tracer.PID)
	v.set("tracer_tid", true, ev.Tracer.TID)
	v.set("cgroup_change_by_pid", true, ev.CgroupChangeBy.PID)
	v.set("cgroup_change_by_start", true, ev.CgroupChangeBy.Start)
	v.set("old_ppid", true, ev.OldPPID)
	v.set("exec_failed_errno", failed, ev.Failed.Errno)
	v.set("exec_failed_path", failed && ev.Failed.PathKnown, latin1(ev.Failed.Path))
	v.set("exec_failed_path_cached", failed, ev.Failed.PathCached)
	v.set("exec_failed_path_truncated", failed, ev.Failed.PathTruncated)
	v.set("gap_from", gap, ev.Gap.From)
	v.set("gap_to", gap, ev.Gap.To)
	v.set("gap_count", gap, ev.Gap.Count)
	v.set("gap_cause", gap, uint8(ev.Gap.Cause))
	v.set("gap_cpu", gap, ev.Gap.CPU)
	v.set("nparts", true, len(ev.Parts))
	for i, p := range ev.Parts {
		of := func(name string, value any) { v.set(fmt.Sprintf("part%d.%s", i, name), true, value) }
		of("time", p.Time)
		of("event", uint32(p.Kind.Events()))
		of("id_change", uint8(p.IDChange))
		of("cpu", p.CPU)
		of("uid", p.Cred.UID)
		of("euid", p.Cred.EUID)
		of("suid", p.Cred.SUID)
		of("gid", p.Cred.GID)
		of("egid", p.Cred.EGID)
		of("sgid", p.Cred.SGID)
		of("fields_known", derivedLast(p.Known))
		of("fields_cached", derivedLast(p.Cached&p.Known))
	}
	if !gap {
		processMembers(v, ev.Process, clock)
	}
	return v
}

// ofProc are the fields of QUARK_F_PROC.
var ofProc = quark.FieldsIDs | quark.SetOf(quark.FieldStart, quark.FieldPPID, quark.FieldPGID, quark.FieldSID, quark.FieldCaps, quark.FieldTTY,
	quark.FieldUTSNS, quark.FieldIPCNS, quark.FieldMntNS, quark.FieldNetNS)

func processMembers(v values, p *quark.Process, clock *quark.Clock) {
	always := func(name string, value any) { v.set("process."+name, true, value) }
	always("pid", p.PID)
	always("fields_known", derivedLast(p.Known))
	always("fields_cached", derivedLast(p.Cached&p.Known))
	always("fields_truncated", derivedLast(p.Truncated&p.Known))
	var flags, cached, cut int
	for i, group := range []quark.Fields{ofProc, quark.SetOf(quark.FieldExit), quark.SetOf(quark.FieldComm), quark.SetOf(quark.FieldExe),
		quark.SetOf(quark.FieldArgs), quark.SetOf(quark.FieldCwd), quark.SetOf(quark.FieldCgroup)} {
		if p.Known&group == group {
			flags |= 1 << i
		}
		if p.Known&p.Cached&group != 0 {
			cached |= 1 << i
		}
		if p.Known&p.Truncated&group != 0 {
			cut |= 1 << i
		}
	}
	always("flags", flags)
	always("flags_cached", cached)
	always("flags_truncated", cut)
	always("as_of", p.AsOf())
	always("exited", p.Exited)
	always("inferred", p.Inferred)
	rows := quark.Rows()
	for i, r := range schema.Rows {
		if r.C == "" {
			continue
		}
		name, known := r.C[strings.LastIndex(r.C, " ")+1:], p.Known&rows[i].Fields == rows[i].Fields
		switch name {
		case "birth_parent_pid":
			known = p.Birth.Known.Has(quark.FieldPPID)
		case "birth_parent_start":
			known = p.Birth.Known.Has(quark.FieldStart)
		}
		v.set("process."+name, known, rows[i].Number(p))
	}
	blob := func(b []byte) string { return latin1(b) + "\x00" }
	for f, members := range map[quark.Field]map[string]any{
		quark.FieldStart:  {"proc_time_boot": clock.Started(p).UnixNano(), "start_unit": p.StartUnit},
		quark.FieldTTY:    {"proc_tty_major": p.TTY.Major, "proc_tty_minor": p.TTY.Minor},
		quark.FieldComm:   {"comm": latin1(p.Comm)},
		quark.FieldExe:    {"filename": latin1(p.Image.Exe)},
		quark.FieldArgs:   {"cmdline": blob(p.Image.Args), "cmdline_len": len(p.Image.Args)},
		quark.FieldCwd:    {"cwd": latin1(p.Cwd)},
		quark.FieldCgroup: {"cgroup": latin1(p.Cgroup)},
		quark.FieldExit:   {"exit_time_event": clock.At(p.Exit.Time).UnixNano()},
		quark.FieldExeFile: {"exe_ctime": p.ExeFile.Ctime, "exe_dev_major": p.ExeFile.Major(), "exe_dev_minor": p.ExeFile.Minor(),
			"exe_removed": p.ExeFile.Removed},
		quark.FieldExecPath:    {"exec_path": latin1(p.ExecPath)},
		quark.FieldEnviron:     {"environ": blob(p.Environ), "environ_len": len(p.Environ)},
		quark.FieldEntryLeader: {"proc_entry_leader_type": uint8(p.EntryType)},
	} {
		for name, value := range members {
			v.set("process."+name, p.Known.Has(f), value)
		}
	}
}
