package sourcetest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// truth prints what a process sees of itself, a line for each.
func truth() {
	link := func(name string) string { s, _ := os.Readlink("/proc/self/" + name); return s }
	file := func(name string) []byte { b, _ := os.ReadFile("/proc/self/" + name); return b }
	line := func(name, value string) { fmt.Printf("%s=%q\n", name, value) }
	line("exe", link("exe"))
	line("cwd", link("cwd"))
	line("cmdline", string(file("cmdline")))
	for _, ns := range []string{"uts", "ipc", "mnt", "net"} {
		line(ns, strings.Trim(strings.TrimPrefix(link("ns/"+ns), ns+":"), "[]"))
	}
	for l := range strings.Lines(string(file("status"))) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), ":")
		if slices.Contains(statusLines, k) {
			line(k, strings.Join(strings.Fields(v), " "))
		}
	}
	stat := file("stat")
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	line("pgid", f[2])
	line("sid", f[3])
	line("tty", f[4])
	line("start", f[19])
	line("cgroup", cgroupTruth(string(file("cgroup"))))
}

var statusLines = []string{"Name", "PPid", "Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}

func cgroupTruth(s string) (path string) {
	for l := range strings.Lines(s) {
		p := strings.SplitN(strings.TrimSuffix(l, "\n"), ":", 3)
		if p[0] == "0" && p[1] == "" {
			return p[2]
		}
		if slices.Contains(strings.Split(p[1], ","), "pids") {
			path = p[2]
		}
	}
	return path
}

// Truth is what the program "truth" saw of itself, by the names of /proc.
type Truth map[string]string

// ParseTruth reads the output of the program "truth".
func ParseTruth(t testing.TB, out []byte) Truth {
	t.Helper()
	m := Truth{}
	for l := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), "=")
		s, err := strconv.Unquote(v)
		if err != nil {
			t.Fatalf("child said %q: %v", l, err)
		}
		m[k] = s
	}
	return m
}

// WantTruth compares an event with what the process saw of itself.
func WantTruth(t testing.TB, ev *engine.RawEvent, truth Truth) {
	t.Helper()
	missing := engine.AllFields &^ engine.FieldExit.Set() &^ ev.Task.Known
	if missing != 0 && ev.Kind == engine.KindExec {
		t.Errorf("unknown: %v", missing)
	}
	num := func(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
	k := &ev.Task
	got := Truth{
		"PPid": num(k.PPID), "pgid": num(k.PGID), "sid": num(k.SID),
		"Uid":    strings.Join([]string{num(k.Cred.UID), num(k.Cred.EUID), num(k.Cred.SUID), num(k.Cred.EUID)}, " "),
		"Gid":    strings.Join([]string{num(k.Cred.GID), num(k.Cred.EGID), num(k.Cred.SGID), num(k.Cred.EGID)}, " "),
		"CapInh": fmt.Sprintf("%016x", k.Caps.Inheritable), "CapPrm": fmt.Sprintf("%016x", k.Caps.Permitted),
		"CapEff": fmt.Sprintf("%016x", k.Caps.Effective), "CapBnd": fmt.Sprintf("%016x", k.Caps.Bounding),
		"CapAmb": fmt.Sprintf("%016x", k.Caps.Ambient),
		"uts":    num(k.NS.UTS), "ipc": num(k.NS.IPC), "mnt": num(k.NS.Mnt), "net": num(k.NS.Net),
		"start": strconv.FormatUint(k.Start/engine.ProcStartUnit, 10),
		"tty":   num(k.TTY.Major<<8 | k.TTY.Minor&0xff | k.TTY.Minor&^0xff<<12),
		"Name":  string(ev.Bytes(engine.FieldComm)),
	}
	if ev.Kind == engine.KindExec {
		got["exe"] = string(ev.Bytes(engine.FieldFilename))
		got["cwd"] = string(ev.Bytes(engine.FieldCwd))
		got["cmdline"] = string(ev.Bytes(engine.FieldCmdline))
		got["cgroup"] = string(ev.Bytes(engine.FieldCgroup))
		if k.Truncated != 0 {
			t.Errorf("truncated: %v", k.Truncated)
		}
	}
	for name, f := range map[string]engine.Field{
		"uts": engine.FieldUTSNS, "ipc": engine.FieldIPCNS, "mnt": engine.FieldMntNS, "net": engine.FieldNetNS,
	} {
		if !k.Known.Has(f) && ev.Kind == engine.KindExit {
			delete(got, name) // the leader ended before the last thread
		}
	}
	for name, v := range got {
		if v != truth[name] {
			t.Errorf("%v %s is %q, not %q", ev.Kind, name, v, truth[name])
		}
	}
}
