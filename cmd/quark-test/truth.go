package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// truth is what /proc shows of a process that stands still. It is parsed here
// and not by the code of a backend, which would agree with itself.
type truth struct {
	pid                             int
	ticks                           uint64                   // start time in 1/100 s of CLOCK_BOOTTIME
	value                           [engine.NumFields]string // as text of each field
	comm, exe, cwd, cgroup, cmdline string
}

func (t *test) truth(pid int) *truth {
	v, err := readTruth(pid)
	if err != nil {
		t.Fatalf("read the truth: %v", err)
	}
	return v
}

func readTruth(pid int) (*truth, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	var first error
	read := func(name string) string {
		b, err := os.ReadFile(dir + name)
		if first == nil {
			first = err
		}
		return string(b)
	}
	link := func(name string) string {
		s, err := os.Readlink(dir + name)
		if first == nil {
			first = err
		}
		return s
	}
	t := &truth{pid: pid}
	t.comm = strings.TrimSuffix(read("comm"), "\n")
	t.exe, t.cwd, t.cmdline = link("exe"), link("cwd"), read("cmdline")
	stat, status := read("stat"), read("status")
	cgroups := read("cgroup")
	ns := func(name string) string { return strings.Trim(strings.TrimPrefix(link("ns/"+name), name+":"), "[]") }
	t.value[engine.FieldUTSNS], t.value[engine.FieldIPCNS] = ns("uts"), ns("ipc")
	t.value[engine.FieldMntNS], t.value[engine.FieldNetNS] = ns("mnt"), ns("net")
	if first != nil {
		return nil, first
	}

	// After the last parenthesis: state, ppid, pgrp, session, tty_nr, ...; the
	// start time is the 22nd field of the line.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return nil, fmt.Errorf("%sstat has %d fields", dir, len(f))
	}
	t.value[engine.FieldPPID], t.value[engine.FieldPGID], t.value[engine.FieldSID] = f[1], f[2], f[3]
	tty, err := strconv.ParseInt(f[4], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%sstat: %w", dir, err)
	}
	// The kernel's new_encode_dev.
	t.value[engine.FieldTTY] = fmt.Sprintf("%d:%d", tty>>8&0xfff, tty>>12&0xfff00|tty&0xff)
	if t.ticks, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return nil, fmt.Errorf("%sstat: %w", dir, err)
	}
	t.value[engine.FieldStart] = strconv.FormatUint(t.ticks, 10)

	lines := make(map[string][]string)
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			lines[key] = strings.Fields(value)
		}
	}
	uid, gid := lines["Uid"], lines["Gid"] // real, effective, saved, of the file system
	if len(uid) != 4 || len(gid) != 4 {
		return nil, fmt.Errorf("%sstatus has no ids", dir)
	}
	t.value[engine.FieldUIDs], t.value[engine.FieldSUID] = uid[0]+" "+uid[1], uid[2]
	t.value[engine.FieldGIDs], t.value[engine.FieldSGID] = gid[0]+" "+gid[1], gid[2]
	var caps []string
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		caps = append(caps, strings.Join(lines[set], ""))
	}
	t.value[engine.FieldCaps] = strings.Join(caps, " ")

	t.cgroup = cgroupOf(cgroups)
	t.value[engine.FieldComm], t.value[engine.FieldFilename] = t.comm, t.exe
	t.value[engine.FieldCmdline], t.value[engine.FieldCwd], t.value[engine.FieldCgroup] = t.cmdline, t.cwd, t.cgroup
	return t, nil
}

// cgroupOf picks the path that quark reports: of cgroup v2 where it is mounted,
// else of the pids controller.
func cgroupOf(cgroups string) (path string) {
	for line := range strings.Lines(cgroups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			return f[2]
		case f[1] == "pids":
			path = f[2]
		}
	}
	return path
}

// valueOf is what quark says of a field, as text like truth.value.
func valueOf(p *engine.Process, f engine.Field) string {
	switch f {
	case engine.FieldStart:
		return strconv.FormatUint(p.Start/engine.ProcStartUnit, 10)
	case engine.FieldPPID:
		return fmt.Sprint(p.PPID)
	case engine.FieldPGID:
		return fmt.Sprint(p.PGID)
	case engine.FieldSID:
		return fmt.Sprint(p.SID)
	case engine.FieldUIDs:
		return fmt.Sprint(p.Cred.UID, " ", p.Cred.EUID)
	case engine.FieldSUID:
		return fmt.Sprint(p.Cred.SUID)
	case engine.FieldGIDs:
		return fmt.Sprint(p.Cred.GID, " ", p.Cred.EGID)
	case engine.FieldSGID:
		return fmt.Sprint(p.Cred.SGID)
	case engine.FieldCaps:
		c := &p.Caps
		return fmt.Sprintf("%016x %016x %016x %016x %016x", c.Inheritable, c.Permitted, c.Effective, c.Bounding, c.Ambient)
	case engine.FieldTTY:
		return fmt.Sprintf("%d:%d", p.TTY.Major, p.TTY.Minor)
	case engine.FieldUTSNS:
		return fmt.Sprint(p.NS.UTS)
	case engine.FieldIPCNS:
		return fmt.Sprint(p.NS.IPC)
	case engine.FieldMntNS:
		return fmt.Sprint(p.NS.Mnt)
	case engine.FieldNetNS:
		return fmt.Sprint(p.NS.Net)
	case engine.FieldComm:
		return p.Comm
	case engine.FieldFilename:
		return p.Filename
	case engine.FieldCmdline:
		return string(p.Cmdline)
	case engine.FieldCwd:
		return p.Cwd
	case engine.FieldCgroup:
		return p.Cgroup
	}
	return fmt.Sprintf("%#x", p.Task.Exit.WaitStatus)
}
