package selftest

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// inherited are the fields that a new process inherits from the thread that created it. Texts are
// compared at EXEC.
const inherited = engine.FieldsInherited&^(1<<engine.FieldPIDNS) | 1<<engine.FieldPGID | 1<<engine.FieldSID

// optional are the fields that some kernels do not show in /proc.
const optional = engine.FieldsNS | 1<<engine.FieldCgroup | 1<<engine.FieldPIDNS | 1<<engine.FieldNoNewPrivs | 1<<engine.FieldSeccomp

// truths has the true values of each event of a self-test child.
type truths struct {
	fork, exec, exit engine.RawEvent
}

// readCreator reads the values that a child inherits from the calling thread.
func (t *truths) readCreator(r *procfs.Reader) error {
	if _, err := r.Read(uint32(unix.Gettid()), inherited, &t.fork); err != nil {
		return fmt.Errorf("read this thread's values: %w", err)
	}
	return nil
}

// readTestChild reads the values of a waiting self-test child.
func (t *truths) readTestChild(r *procfs.Reader, pid uint32) error {
	fields := r.Readable()
	e := &t.exec
	if _, err := r.Read(pid, fields, e); err != nil {
		return fmt.Errorf("read the values of process %d: %w", pid, err)
	}
	if missing := fields &^ optional &^ e.Task.Known; missing != 0 {
		return fmt.Errorf("read the values of process %d: /proc has no %v", pid, missing)
	}
	// This process has set these values.
	e.Task.PPID, e.Task.PGID, e.Task.SID = uint32(os.Getpid()), pid, pid
	e.Set(engine.FieldArgs, []byte(strings.Join(argv, "\x00")+"\x00"))
	e.Set(engine.FieldExe, []byte("memfd:"+programName))

	const born = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID)
	f := &t.fork.Task
	f.Known |= born | engine.FieldBirthParentTID.Set() | engine.FieldParentSignal.Set()
	f.Start, f.StartUnit, f.PPID = e.Task.Start, e.Task.StartUnit, e.Task.PPID
	f.ParentTID, f.ParentSignal = uint32(unix.Gettid()), e.Task.ParentSignal

	// A process loses all other values before its EXIT.
	t.exit.Task = e.Task
	t.exit.Task.Known &= born | engine.FieldsIDs
	t.exit.Task.Known |= engine.FieldExit.Set()
	t.exit.Task.Exit.WaitStatus = exitCode << 8

	for _, event := range []struct {
		truth *engine.RawEvent
		kind  engine.Kind
	}{{&t.fork, engine.KindFork}, {e, engine.KindExec}, {&t.exit, engine.KindExit}} {
		event.truth.Kind, event.truth.PID, event.truth.TID = event.kind, pid, pid
	}
	t.fork.Creator = uint32(os.Getpid())
	return nil
}
