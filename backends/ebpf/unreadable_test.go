package ebpf

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/thorough"
)

// A direct read through a NULL pointer or of freed memory returns zeroes without an error. The
// programs report such values as unknown, as they do with reads through calls.
func TestUnreadable(t *testing.T) {
	if !kernelversion.AtLeast("5.10") {
		t.Skip("needs test runs of raw tracepoint programs (Linux 5.10)")
	}
	direct := open(t, Options{})
	hideCasts(t)
	calls := open(t, Options{})
	c := newCopies(t)
	task := c.task()
	runs := []struct {
		handler string
		args    []uint64
	}{
		{programsProgQuarkExitHandler, []uint64{task}},
		{programsProgQuarkTextHandler, []uint64{task}},
		{programsProgQuarkRenameHandler, []uint64{task, task + c.offset("task_struct.comm")}},
	}
	for _, p := range append([]pointer{{}}, c.pointers...) {
		for _, value := range []uint64{0, 0x6b6b6b6b6b6b6b6b} { // NULL, freed memory
			switch {
			case p.held && value != 0:
				continue
			case p.name != "":
				c.set(p, value)
			}
			for _, run := range runs {
				want, got := runHandler(t, calls, run.handler, run.args), runHandler(t, direct, run.handler, run.args)
				if p.name == "" && strings.Count(want, "\n") < 20 {
					t.Errorf("%s reports too few fields: %s", run.handler, want)
				}
				if want != got {
					t.Errorf("%s with %s = %#x:\n%s", run.handler, p.name, value, difference(want, got))
				}
			}
		}
		if p.name != "" {
			c.set(p, p.was)
		}
	}
}

// difference returns the lines that only one of two events has.
func difference(want, got string) (s string) {
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			s += "  want " + line
		}
	}
	for line := range strings.Lines(got) {
		if !strings.Contains(want, line) {
			s += "  got  " + line
		}
	}
	return s
}

// A task may release objects while a program reads them: a leader can exit on another CPU. The
// programs never report the new contents of the freed memory.
func TestGivenUp(t *testing.T) {
	if !kernelversion.AtLeast("5.10") {
		t.Skip("needs test runs of raw tracepoint programs (Linux 5.10)")
	}
	for _, by := range []string{"direct reads", "calls"}[:thorough.Rounds(1, 2)] {
		if by == "calls" {
			hideCasts(t)
		}
		s := open(t, Options{})
		hideCast = false
		c := newCopies(t)
		task := c.task()
		memory, err := unix.Mmap(c.memory.FD(), 0, copySize*copyCount, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(memory)
		own := inode(t, "ipc")
		word := func(p pointer) *uint64 { return (*uint64)(unsafe.Pointer(&memory[uint64(p.in)*copySize+p.at])) }
		for _, what := range []struct {
			has, structure, in string
			other              uint64
			wrong              func(*engine.Task) bool
		}{
			{"task_struct.nsproxy", "nsproxy", "nsproxy.ipc_ns", *word(c.find("nsproxy.uts_ns")), func(task *engine.Task) bool {
				return task.Known.Has(engine.FieldIPCNS) && task.NS.IPC != own
			}},
			{"signal_struct.tty", "tty_struct", "tty_struct.driver", c.otherDriver, func(task *engine.Task) bool {
				return task.Known.Has(engine.FieldTTY) && task.TTY.Major == otherMajor
			}},
		} {
			has, in := c.find(what.has), c.find(what.in)
			addresses, ins := []uint64{has.was}, []*uint64{word(in)}
			for range 7 {
				var address uint64
				in.in, address = c.add(what.structure, has.was)
				addresses, ins = append(addresses, address), append(ins, word(in))
			}
			// The pointer cycles through the addresses. During one run of a program no
			// address repeats.
			var began, took, ended atomic.Int64
			var done sync.WaitGroup
			done.Go(func() {
				at := 0
				for last := int64(0); ; {
					begin := began.Load()
					if begin == last {
						continue
					}
					if last = begin; begin < 0 {
						return
					}
					for delay := rand.Int64N(took.Load() + 1); time.Now().UnixNano() < begin+delay; {
					}
					for range len(ins) - 2 {
						atomic.StoreUint64(word(has), 0)
						atomic.StoreUint64(ins[at], what.other)
						at = (at + 1) % len(ins)
						atomic.StoreUint64(ins[at], in.was)
						atomic.StoreUint64(word(has), addresses[at])
					}
					ended.Store(begin)
				}
			})
			wrong, reported := 0, 0
			for begin := time.Now(); time.Since(begin) < time.Second; {
				for range 100 {
					now := time.Now()
					began.Store(now.UnixNano())
					run(t, s, programsProgQuarkExitHandler, []uint64{task})
					took.Store(int64(time.Since(now)))
					for ended.Load() != now.UnixNano() {
						runtime.Gosched()
					}
				}
				for _, ev := range conform.Drain(t, s) {
					if ev.PID == copiedTGID {
						reported++
						if what.wrong(&ev.Task) {
							wrong++
						}
					}
				}
			}
			began.Store(-1)
			done.Wait()
			if wrong > 0 || reported == 0 {
				t.Errorf("%s, read by %s: %d of %d events have values of freed memory", what.has, by, wrong, reported)
			}
		}
	}
}

// inode returns the inode number of one of the test's namespaces.
func inode(t *testing.T, namespace string) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+namespace, &st); err != nil {
		t.Fatal(err)
	}
	return uint32(st.Ino)
}

const copiedTGID = 0x7ffffff0 // no process has this pid

// runHandler runs a program with the arguments of its tracepoint. It returns the known fields of
// the resulting event of copiedTGID, one per line.
func runHandler(t *testing.T, s *Source, handler string, args []uint64) (fields string) {
	t.Helper()
	conform.Drain(t, s)
	run(t, s, handler, args)
	for _, ev := range conform.Drain(t, s) {
		if ev.PID != copiedTGID {
			continue
		}
		task := ev.Task
		task.Exit.Time = 0
		fields += fmt.Sprintf("%s tid %d image %d creator %d\n", ev.Kind, ev.TID, ev.Image, ev.Creator)
		for f := engine.FieldComm; f <= engine.FieldCgroup; f++ {
			fields += fmt.Sprintf("%s %q\n", f, ev.Bytes(f))
		}
		for line := range strings.SplitSeq(fmt.Sprintf("%+v", task), " ") {
			fields += line + "\n"
		}
	}
	return fields
}

func run(t *testing.T, s *Source, handler string, args []uint64) {
	t.Helper()
	ctx := make([]uint64, 12)
	copy(ctx, args)
	for _, p := range s.programs {
		if strings.Contains(p.String(), "("+handler+")") {
			if _, err := p.Run(&ebpf.RunOptions{Context: ctx}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// copies has kernel structures that are copied to a map, so that a test can change them.
type copies struct {
	t         *testing.T
	types     *btf.Spec
	memory    *ebpf.Map // one copy in each entry
	addresses *ebpf.Map // address of each entry
	used      uint32
	pointers  []pointer

	otherDriver uint64 // address of another terminal's driver, with otherMajor
}

// pointer is a pointer in a copy. held means that RCU frees the object, which a running program
// delays.
type pointer struct {
	name    string
	in      uint32
	at, was uint64
	held    bool
}

const (
	copySize   = 32 << 10
	copyCount  = 32
	otherMajor = 77
)

func newCopies(t *testing.T) *copies {
	var shared source.Options
	kernel, err := shared.Types()
	if err != nil {
		t.Fatal(err)
	}
	c := &copies{t: t, types: kernel.Spec}
	for m, size := range map[**ebpf.Map]uint32{&c.memory: copySize, &c.addresses: 8} {
		if *m, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: copyCount, Flags: unix.BPF_F_MMAPABLE}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*m).Close() })
	}
	return c
}

// offset returns the offset of a member in a type.
func (c *copies) offset(name string) uint64 {
	c.t.Helper()
	at, ok := btfhub.ResolveTargets(c.types, []btfhub.Target{{Name: name, Alternatives: []string{name}}}).Bytes(name)
	if !ok {
		c.t.Skip("the kernel's types have no " + name)
	}
	return uint64(at)
}

// add copies the structure at an address. Address 0 is the current task.
func (c *copies) add(structure string, address uint64) (index uint32, at uint64) {
	c.t.Helper()
	size := 256
	if structure != "" {
		of, err := c.types.AnyTypeByName(structure)
		if err != nil {
			c.t.Fatal(err)
		}
		if size, err = btf.Sizeof(of); err != nil {
			c.t.Fatal(err)
		}
	}
	index = c.used
	c.used++
	lookup := func(m *ebpf.Map) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.StoreImm(asm.R2, 0, int64(index), asm.Word),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
		}
	}
	code := asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord)}
	if address == 0 {
		code = append(code, asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R6, asm.R0))
	}
	code = append(code, lookup(c.memory)...)
	code = append(code, asm.Mov.Reg(asm.R7, asm.R0), asm.Mov.Reg(asm.R1, asm.R7), asm.Mov.Imm(asm.R2, int32(size)),
		asm.Mov.Reg(asm.R3, asm.R6), asm.FnProbeReadKernel.Call())
	code = append(code, lookup(c.addresses)...)
	code = append(code, asm.StoreMem(asm.R0, 0, asm.R7, asm.DWord), asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: code})
	if err != nil {
		c.t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(&ebpf.RunOptions{Context: []uint64{address}}); err != nil {
		c.t.Fatal(err)
	}
	if err := c.addresses.Lookup(index, &at); err != nil {
		c.t.Fatal(err)
	}
	return index, at
}

// bytes returns a copy. put replaces it.
func (c *copies) bytes(index uint32) []byte {
	b, err := c.memory.LookupBytes(index)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *copies) put(index uint32, b []byte) {
	if err := c.memory.Update(index, b, ebpf.UpdateAny); err != nil {
		c.t.Fatal(err)
	}
}

// set sets a pointer in a copy.
func (c *copies) set(p pointer, value uint64) {
	b := c.bytes(p.in)
	binary.NativeEndian.PutUint64(b[p.at:], value)
	c.put(p.in, b)
}

// follow copies the structure that a member points to, and makes the member point to the copy.
func (c *copies) follow(index uint32, member, structure string) (uint32, uint64) {
	p := pointer{name: member, in: index, at: c.offset(member), held: member != "task_struct.nsproxy"}
	target := binary.NativeEndian.Uint64(c.bytes(index)[p.at:])
	if target == 0 {
		c.t.Skip("the kernel's types have no " + member)
	}
	copied, address := c.add(structure, target)
	c.set(p, address)
	p.was = address
	c.pointers = append(c.pointers, p)
	return copied, address
}

// find returns the pointer with this name.
func (c *copies) find(name string) pointer {
	i := slices.IndexFunc(c.pointers, func(p pointer) bool { return p.name == name })
	if i < 0 {
		c.t.Fatal("no pointer " + name)
	}
	return c.pointers[i]
}

// leave adds pointers that the test must not change.
func (c *copies) leave(index uint32, members ...string) {
	for _, member := range members {
		at := c.offset(member)
		p := pointer{name: member, in: index, at: at, was: binary.NativeEndian.Uint64(c.bytes(index)[at:])}
		p.held = strings.HasPrefix(member, "task_struct.")
		c.pointers = append(c.pointers, p)
	}
}

// task copies the current task and its objects, and returns the address of the copy. The copy is
// the only thread of a process that has exited.
func (c *copies) task() uint64 {
	task, at := c.add("task_struct", 0)
	nsproxy, _ := c.follow(task, "task_struct.nsproxy", "nsproxy")
	signal, _ := c.follow(task, "task_struct.signal", "signal_struct")
	fs, _ := c.follow(task, "task_struct.fs", "fs_struct")
	pid, _ := c.follow(task, "task_struct.thread_pid", "pid")
	cgroups, _ := c.follow(task, "task_struct.cgroups", "css_set")
	c.follow(task, "task_struct.real_cred", "cred")
	c.leave(nsproxy, "nsproxy.uts_ns", "nsproxy.ipc_ns", "nsproxy.mnt_ns", "nsproxy.net_ns", "nsproxy.cgroup_ns")
	c.leave(fs, "fs_struct.root.dentry", "fs_struct.root.mnt", "fs_struct.pwd.dentry", "fs_struct.pwd.mnt")
	cgroup, _ := c.follow(cgroups, "css_set.dfl_cgrp", "cgroup")
	c.leave(cgroup, "cgroup.kn")
	c.leave(task, "task_struct.real_parent")
	pgid := c.offset("signal_struct.pids") + 8*2 // PIDTYPE_PGID
	c.pointers = append(c.pointers, pointer{"signal_struct.pids[PGID]", signal, pgid, binary.NativeEndian.Uint64(c.bytes(signal)[pgid:]), true})
	tty, ttyAt := c.add("tty_struct", at)
	c.put(tty, make([]byte, copySize))
	driver, driverAt := c.add("tty_driver", at)
	c.put(driver, make([]byte, copySize))
	put := func(index uint32, member string, value uint32) {
		b := c.bytes(index)
		binary.NativeEndian.PutUint32(b[c.offset(member):], value)
		c.put(index, b)
	}
	put(task, "task_struct.tgid", copiedTGID)
	put(task, "task_struct.pid", copiedTGID)
	put(task, "task_struct.exit_signal", 17)
	put(signal, "signal_struct.nr_threads", 1)
	put(tty, "tty_struct.index", 3)
	put(driver, "tty_driver.major", 136)
	driver, c.otherDriver = c.add("tty_driver", at)
	c.put(driver, make([]byte, copySize))
	put(driver, "tty_driver.major", otherMajor)
	point := func(p pointer, value uint64) {
		p.was = value
		c.set(p, value)
		c.pointers = append(c.pointers, p)
	}
	point(pointer{name: "tty_struct.driver", in: tty, at: c.offset("tty_struct.driver")}, driverAt)
	point(pointer{name: "signal_struct.tty", in: signal, at: c.offset("signal_struct.tty")}, ttyAt)
	// The process is in a pid namespace below the initial one.
	own := c.offset("pid.numbers") + 16
	put(pid, "pid.level", 1)
	c.set(pointer{in: pid, at: own}, 77)
	point(pointer{name: "upid.ns", in: pid, at: own + 8}, binary.NativeEndian.Uint64(c.bytes(pid)[own-8:]))
	c.set(pointer{in: task, at: c.offset("task_struct.group_leader")}, at)
	return at
}
