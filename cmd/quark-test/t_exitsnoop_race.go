package main

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// exitsnoopRace traces processes while they end: with one and with two threads, reaped at once or
// later. Every process that Trace accepts has to get its true status.
func exitsnoopRace(t *test) {
	root := t.snoopRoot()
	// Another process starts exitsnoop, which reads the kernel's types: this one stays
	// small, so its forks are fast.
	t.must(t.snoopChild("ensure", root).Run())
	s := t.snoopStore(root)
	ctx, cancel := context.WithDeadline(context.Background(), t.Deadline)
	defer cancel()
	n := 1000
	if inGuest() {
		n = 80 // an emulated processor takes long for each
	}
	var traced, gone int
	for i := range n {
		code, id := i%100, uint64(i)
		end := func(s *bare.Script) *bare.Script { return s.Exit(code) }
		if i%4 >= 2 { // the leader ends before the other thread
			end = func(s *bare.Script) *bare.Script {
				return s.Thread(script().ExitThread(1)).ExitThread(code)
			}
		}
		g := t.gate("the process to be told to end")
		// Processes with one thread share our memory and end within microseconds; the
		// others take longer, because they free their own.
		p := t.spawn(end(script().WaitFor(g.r)), barefork{Share: i%4 < 2})
		g.open()
		// The delays reach from before the end to after it.
		for until := time.Now().Add(time.Duration(i%50) * 10 * time.Microsecond); time.Now().Before(until); {
		}
		reaped := make(chan struct{})
		if i%2 == 0 {
			go func() {
				unix.Wait4(p.PID, &p.status, 0, nil)
				close(reaped)
			}()
		}
		err := s.Trace(uint32(p.PID), &exitsnoop.TaskInfo{TraceID: id})
		if i%2 == 0 {
			<-reaped
			p.reaped = true
		} else {
			t.reapBlind(p)
		}
		switch {
		case err == nil:
			traced++
			st, err := s.Wait(ctx, id)
			if err != nil {
				t.Fatalf("process %d was traced and is lost: %v", i, err)
			}
			t.sameExit(st, p)
			t.must(s.DeleteExitedEvent(id))
		case errors.Is(err, exitsnoop.ErrNoProcess):
			gone++
			_, err := s.GetExitedEvent(id)
			t.wantError("one that was refused", err, exitsnoop.ErrNotTraced)
		default:
			t.Fatalf("process %d: %v", i, err)
		}
		unix.Close(g.r)
		unix.Close(g.w)
		g.r, g.w = -1, -1
		p.Free()
	}
	t.Logf("%d traced in time, %d refused", traced, gone)
	t.wantStats(s, uint64(traced), 0, 0, 0)
}

// exitsnoopPidns traces processes in another pid namespace.
func exitsnoopPidns(t *test) {
	s, root := t.snoop(exitsnoop.Options{})
	var st exitsnoop.Stats
	for i, mismatch := range []bool{false, true} {
		id := uint64(i + 1)
		c := t.snoopChild("stand", "5")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
		in, err := c.StdinPipe()
		t.must(err)
		t.must(c.Start())
		pid := uint32(c.Process.Pid)
		ns := t.pidns(c.Process.Pid)
		if ns == t.ownPidns() {
			t.Fatalf("the scenario did not do its work: no namespace of its own")
		}
		t.wantError("the wrong namespace", s.Trace(pid, &exitsnoop.TaskInfo{TraceID: id, PidnsInfo: t.ownPidns()}), exitsnoop.ErrNamespace)
		t.must(s.Trace(pid, &exitsnoop.TaskInfo{TraceID: id, PidnsInfo: ns}))
		info, err := s.GetTracingTask(pid)
		t.must(err)
		if info.PidnsInfo != ns {
			t.Errorf("traced in %+v, want %+v", info.PidnsInfo, ns)
		}
		if mismatch {
			t.falsify(root, pid)
		}
		in.Close()
		c.Wait()
		got, err := s.Wait(context.Background(), id)
		switch {
		case mismatch:
			t.wantError("the end of one in another namespace", err, exitsnoop.ErrLost)
		case err != nil:
			t.Errorf("%v", err)
		case got.Pid != pid || got.WaitStatus().ExitStatus() != 5:
			t.Errorf("recorded %+v", got)
		}
	}
	st, err := s.Stats()
	t.must(err)
	if st.Recorded != 1 || st.WrongNamespace == 0 {
		t.Errorf("stats %+v", st)
	}
}

// falsify changes the pid namespace in a tracing entry.
func (t *test) falsify(root string, pid uint32) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(snoopDir(root), "v1", "tracing_tasks"), nil)
	t.must(err)
	defer m.Close()
	entry, err := m.LookupBytes(pid)
	t.must(err)
	const ino = 16 // offset of the namespace's inode number in version 1 of the layout
	binary.NativeEndian.PutUint64(entry[ino:], t.ownPidns().Ino)
	t.must(m.Put(pid, entry))
}
