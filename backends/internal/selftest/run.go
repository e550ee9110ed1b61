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

// A Drain reads what a source has queued and hands each event over, to keep. It
// does not block.
type Drain func(take func(*engine.RawEvent)) error

// limit is how long each thing that should happen at once is waited for.
const limit = time.Second

// Run tests the types of a source, which has the capabilities in table and
// reports thread groups at least. It takes the events of all processes away that
// come meanwhile, and returns an error that says what to do if one of the
// witness's is missing or wrong, or if there could be no witness.
func Run(table *engine.CapabilityTable, drain Drain) error {
	if err := run(table, drain); err != nil {
		return fmt.Errorf("%w: name a BTF file with %s", err, btfhub.PathVariable)
	}
	return nil
}

func run(table *engine.CapabilityTable, drain Drain) error {
	runtime.LockOSThread() // it is the creator
	defer runtime.UnlockOSThread()
	fields, err := comparableFields()
	if err != nil {
		return err
	}
	proc, err := procfs.Open()
	if err != nil {
		return err
	}
	defer proc.Close()
	var truth truths
	if err := truth.readCreator(proc, fields); err != nil {
		return err
	}
	w, err := startWitness()
	if err != nil {
		return err
	}
	defer w.end()
	if err := w.begin(limit); err != nil {
		return err
	}
	pid := uint32(w.pid)
	if err := truth.readWitness(proc, pid, fields); err != nil {
		return err
	}
	test := test{pid: pid, table: table, drain: drain, limit: limit}
	if err := test.check(&truth.fork, &truth.exec); err != nil {
		return err
	}
	w.letGo()
	if err := test.check(&truth.exit); err != nil {
		return err
	}
	status, err := w.status()
	if err == nil && status != exitCode<<8 {
		err = fmt.Errorf("process %d ended with status %#x, not %#x", pid, status, exitCode<<8)
	}
	return err
}

// test is what has been seen of a witness.
type test struct {
	pid   uint32
	table *engine.CapabilityTable
	drain Drain
	limit time.Duration
	seen  [engine.NumKinds]*engine.RawEvent
}

// check waits for the events of truths and compares.
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
		late := time.Now().After(end) // before a last look
		err := t.drain(func(ev *engine.RawEvent) {
			if ev.PID == t.pid && !ev.Thread && t.seen[ev.Kind] == nil {
				t.seen[ev.Kind] = ev
			}
		})
		if err != nil {
			return err
		}
		if late && t.seen[k] == nil {
			return fmt.Errorf("the types are not this kernel's: no %v of process %d within %v", k, t.pid, t.limit)
		}
	}
	return nil
}
