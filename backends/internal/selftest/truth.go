package selftest

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// errNamespaced says that a process cannot know its child as the kernel does.
var errNamespaced = errors.New("in a pid or user namespace: the kernel's own numbers of processes are not known here")

// comparableFields are the fields that /proc tells as the kernel has them: the paths
// of cgroups and the times in it are those of the reader's namespaces.
func comparableFields() (engine.Fields, error) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return 0, fmt.Errorf("the truth is not known: %w", err)
	}
	if !proctext.InInitialNamespace("pid") || !proctext.InInitialNamespace("user") {
		return 0, errNamespaced
	}
	fields := procfs.Readable
	if !proctext.InInitialNamespace("cgroup") {
		fields &^= engine.FieldCgroup.Set()
	}
	if !proctext.InInitialNamespace("time") {
		fields &^= engine.FieldStart.Set()
	}
	return fields, nil
}

// inherited are the fields that a new process has of the thread that made it.
// Of the texts those that EXEC brings too are left to that.
const inherited = engine.FieldsIDs | engine.FieldsNS |
	1<<engine.FieldPGID | 1<<engine.FieldSID | 1<<engine.FieldCaps | 1<<engine.FieldTTY

// optional are the fields that a kernel may have and not show in /proc.
const optional = engine.FieldsNS | 1<<engine.FieldCgroup

// truths are the right values at each event of a witness.
type truths struct {
	fork, exec, exit engine.RawEvent
}

// readCreator reads what the calling thread leaves to its child.
func (t *truths) readCreator(r *procfs.Reader, fields engine.Fields) error {
	if _, err := r.Read(uint32(unix.Gettid()), fields&inherited, &t.fork); err != nil {
		return fmt.Errorf("the truth about this thread: %w", err)
	}
	return nil
}

// readWitness reads the truth about a witness that waits.
func (t *truths) readWitness(r *procfs.Reader, pid uint32, fields engine.Fields) error {
	e := &t.exec
	if _, err := r.Read(pid, fields, e); err != nil {
		return fmt.Errorf("the truth about process %d: %w", pid, err)
	}
	if missing := fields &^ optional &^ e.Task.Known; missing != 0 {
		return fmt.Errorf("the truth about process %d: /proc does not tell %v", pid, missing)
	}
	// These the parent knows better.
	e.Task.PPID, e.Task.PGID, e.Task.SID = uint32(os.Getpid()), pid, pid
	e.Set(engine.FieldCmdline, []byte(strings.Join(argv, "\x00")+"\x00"))
	e.Set(engine.FieldFilename, []byte("memfd:"+programName))

	const born = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID)
	f := &t.fork.Task
	f.Known |= born & fields
	f.Start, f.StartUnit, f.PPID = e.Task.Start, e.Task.StartUnit, e.Task.PPID

	// What else a process has is given up on its way to the end.
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
