package selftest

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// populator is the part of an [engine.Source] that is tested.
type populator interface {
	Populate(engine.Sink) error
}

// limit bounds the time of each step. A step that succeeds takes almost no time.
const limit = time.Second

// Run tests the types of a source with the capabilities in table. The source must report thread
// groups. Run reads and drops its events. The error says that an event of the self-test child is
// missing or wrong, or that the child could not start. It names the remedy.
func Run(table *engine.CapabilityTable, s populator) error {
	test := test{table: table, source: s, limit: limit}
	if err := test.run(); err != nil {
		return fmt.Errorf("%w: name a BTF file with %s", err, btfhub.PathVariable)
	}
	return nil
}

func (t *test) run() error {
	runtime.LockOSThread() // this thread is the child's creator
	defer runtime.UnlockOSThread()
	proc, err := procfs.Open()
	if err != nil {
		return err
	}
	defer proc.Close()
	var truth truths
	if err := truth.readCreator(proc); err != nil {
		return err
	}
	w, err := startTestChild()
	if err != nil {
		return err
	}
	defer w.end()
	if err := w.begin(limit); err != nil {
		return err
	}
	t.pid = uint32(w.cmd.Process.Pid)
	if err := truth.readTestChild(proc, t.pid); err != nil {
		return err
	}
	if err := t.check(&truth.fork, &truth.exec); err != nil {
		return err
	}
	w.release()
	if err := t.check(&truth.exit); err != nil {
		return err
	}
	status, err := w.status()
	if err == nil && status != exitCode<<8 {
		err = fmt.Errorf("wait status of process %d: got %#x, want %#x", t.pid, status, exitCode<<8)
	}
	return err
}

// test is an [engine.Sink] that keeps the first event of each kind of the self-test child.
type test struct {
	pid    uint32
	table  *engine.CapabilityTable
	source populator
	limit  time.Duration
	room   int // events left until the time is checked again
	seen   [engine.NumKinds]*engine.RawEvent
}

// maxRead bounds the events that are read before the time is checked again.
const maxRead = 4096

func (t *test) Room() int                 { return t.room }
func (t *test) Reserve() *engine.RawEvent { return new(engine.RawEvent) }
func (t *test) Release(*engine.RawEvent)  {}

func (t *test) Insert(ev *engine.RawEvent) {
	t.room--
	if ev.PID == t.pid && !ev.Thread && t.seen[ev.Kind] == nil {
		t.seen[ev.Kind] = ev
	}
}

// check waits for the events of the kinds in truths, and compares them.
func (t *test) check(truths ...*engine.RawEvent) error {
	var wrong []string
	for _, truth := range truths {
		if err := t.await(truth.Kind); err != nil {
			return err
		}
		wrong = append(wrong, compare(t.seen[truth.Kind], truth, t.table)...)
	}
	if wrong != nil {
		return fmt.Errorf("the types are not this kernel's: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func (t *test) await(k engine.Kind) error {
	for end := time.Now().Add(t.limit); t.seen[k] == nil; time.Sleep(time.Millisecond) {
		late := time.Now().After(end) // before the events are read
		t.room = maxRead
		if err := t.source.Populate(t); err != nil {
			return err
		}
		if late && t.seen[k] == nil {
			return fmt.Errorf("the types are not this kernel's: no %v of process %d within %v", k, t.pid, t.limit)
		}
	}
	return nil
}
