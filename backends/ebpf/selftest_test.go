package ebpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/fidelity/conform"
)

func TestSelfTestPasses(t *testing.T) {
	s := open(t, Options{})
	for range 3 {
		if err := selftest.Run(s.Capabilities(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// If the types come from the self-test, the source does not count the events of its self-test.
func TestTestedSource(t *testing.T) {
	open(t, Options{}) // skips if there is no eBPF
	types, err := (&source.Options{}).Types()
	if err != nil {
		t.Fatal(err)
	}
	types.Exact = false
	s, err := selftest.Open(source.Options{}, types, func(o source.Options) (*Source, error) {
		return openWith(new(Options), &o, types)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	st, err := s.Stats()
	if queued := uint64(len(conform.Drain(t, s))); err != nil || st.LostTotal() != 0 || st.Produced > queued {
		t.Errorf("after the self-test: got stats %+v, error %v, %d events queued", st, err, queued)
	}
}

// TestWrongOffsets changes the offset of one member at a time; the self-test must fail. The value
// at the new offset must differ: next to task_struct.mm is the equal active_mm, next to
// mm_struct.arg_end is env_start, and all ids of root are 0.
func TestSelfTestRefuses(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	if testing.Short() {
		t.Skip("loads the programs dozens of times, half a minute on an emulated processor")
	}
	for _, c := range []struct {
		bytes   int
		members string // "TYPE: MEMBER ..."
	}{
		{8, "task_struct: pid tgid comm group_leader start_boottime signal fs nsproxy cgroups"},
		{16, "task_struct: real_parent real_cred mm"},
		{8, "mm_struct: arg_start exe_file"},
		{16, "mm_struct: arg_end"},
		{8, "file: f_path"},
		{8, "signal_struct: pids tty"},
		{8, "tty_struct: index driver"},
		{8, "tty_driver: major"},
		{8, "cred: cap_inheritable cap_bset"},
		{-8, "cred: cap_permitted cap_ambient"},
		{8, "nsproxy: uts_ns ipc_ns mnt_ns net_ns"},
		{8, "ns_common: inum"},
		{8, "fs_struct: pwd"},
		{8, "path: dentry"},
		{8, "dentry: d_parent d_name"},
		{8, "qstr: name"},
		{8, "mount: mnt_parent mnt_mountpoint"},
		{8, "vfsmount: mnt_root"},
		{8, "css_set: dfl_cgrp"},
		{8, "cgroup: kn"},
	} {
		st, members, _ := strings.Cut(c.members, ": ")
		for member := range strings.FieldsSeq(members) {
			t.Run(st+"."+member, func(t *testing.T) {
				t.Parallel() // detaching a program waits for the kernel
				checkRefusal(t, st, member, c.bytes)
			})
		}
	}
}

func checkRefusal(t *testing.T, st, member string, bytes int) {
	types, err := btf.LoadSpec(btfhub.KernelBTF)
	if err != nil {
		t.Skip(err)
	}
	if !move(types, st, member, bytes) {
		t.Skip("this kernel's types have no such member")
	}
	s, err := Open(source.Options{KernelTypes: types}, Options{})
	if err != nil {
		t.Log(err) // Open rejected the types before the self-test
		return
	}
	defer s.Close()
	if err = selftest.Run(s.Capabilities(), s); err == nil {
		t.Fatal("the self-test passed with wrong types")
	}
	if !strings.Contains(err.Error(), btfhub.PathVariable) {
		t.Errorf("the error does not name the remedy: %v", err)
	}
}

// move changes the offset of a member in a struct, and in its unnamed structs.
func move(types *btf.Spec, name, member string, bytes int) (moved bool) {
	all, err := types.AnyTypesByName(name)
	if err != nil {
		return false
	}
	var in func(members []btf.Member)
	in = func(members []btf.Member) {
		for i := range members {
			if members[i].Name == member {
				members[i].Offset += btf.Bits(8 * bytes)
				moved = true
			}
			if members[i].Name != "" {
				continue
			}
			switch st := btf.UnderlyingType(members[i].Type).(type) {
			case *btf.Struct:
				in(st.Members)
			case *btf.Union:
				in(st.Members)
			}
		}
	}
	for _, one := range all {
		if st, ok := one.(*btf.Struct); ok {
			in(st.Members)
		}
	}
	return moved
}
