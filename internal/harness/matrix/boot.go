package matrix

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/harness/machine"
	"github.com/quark-linux/quark/internal/harness/record"
)

// Machine holds the options of guests' machines and the deadlines of guests. Zero fields mean the
// defaults in parentheses.
type Machine struct {
	QEMU string // the emulator (qemu-system-ARCH)
	Mem  int    // MiB (512)

	// The defaults of the deadlines allow for emulation on a loaded machine. A guest that makes
	// progress has no other time limit.
	Boot time.Duration // until the hello (120 s)
	Test time.Duration // until the next record (180 s)

	// Output, if not nil, receives the standard output and error that a guest's command sends
	// as records.
	Output func(record.Output)
}

func (m Machine) withDefaults() Machine {
	m.Boot = cmp.Or(m.Boot, 120*time.Second)
	m.Test = cmp.Or(m.Test, 180*time.Second)
	m.Mem = cmp.Or(m.Mem, 512)
	return m
}

// The files of a guest in its directory.
const (
	ConsoleFile = "console.log"
	recordsFile = "records.jsonl"

	FilesDir = "files" // files that the guest sent
)

// poll is the interval in which the host reads a guest's records.
const poll = 100 * time.Millisecond

// stacksLimit is how long a guest that missed a deadline may take to print its stacks.
const stacksLimit = 30 * time.Second

// Run boots a guest and waits for its end. It leaves the guest's console and records in dir. An
// error is an error of the host; the outcome contains errors in the guest.
func (m Machine) Run(ctx context.Context, g Guest, dir string) (Outcome, error) {
	m = m.withDefaults()
	o := Outcome{Guest: g.Name(), Kernel: g.Kernel, BTF: g.BTF, Part: g.Part, Repro: g.Repro("")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, fmt.Errorf("make a directory for %s: %w", g.Name(), err)
	}
	if err := os.RemoveAll(filepath.Join(dir, FilesDir)); err != nil {
		return o, fmt.Errorf("remove the files of %s from before: %w", g.Name(), err)
	}
	console, err := os.Create(filepath.Join(dir, ConsoleFile))
	if err != nil {
		return o, fmt.Errorf("keep the console of %s: %w", g.Name(), err)
	}
	defer console.Close()
	records, err := os.Create(filepath.Join(dir, recordsFile))
	if err != nil {
		return o, fmt.Errorf("keep the records of %s: %w", g.Name(), err)
	}
	defer records.Close()
	b := &boot{machine: m, guest: g, begin: time.Now()}
	b.claims, b.lacks, b.cpus, b.output = g.claims(), g.Kernel.Lacks, g.Kernel.CPUs, m.Output
	if g.Part == PartCommand {
		b.command = strings.Join(g.Command, " ")
	}
	if err := b.run(ctx, console, records); err != nil {
		return o, fmt.Errorf("boot %s: %w", g.Name(), err)
	}
	if err := b.finish(console, filepath.Join(dir, FilesDir)); err != nil {
		return o, fmt.Errorf("read the results of %s: %w", g.Name(), err)
	}
	o.State, o.Reason, o.Cells = b.score()
	for i, c := range o.Cells {
		if !c.State.Good() {
			o.Cells[i].Repro = g.Repro(c.Test)
		}
	}
	o.Hello, o.End, o.Console, o.Damaged = b.hello, b.end, b.console, b.damaged
	if o.State != record.Pass && o.State != record.Fail {
		o.Tail = b.tail
	}
	o.TotalMS = b.total.Milliseconds()
	return o, nil
}

// boot is a running guest.
type boot struct {
	evidence
	machine  Machine
	guest    Guest
	begin    time.Time
	received time.Time // time of the last record

	total time.Duration // time from begin to now or the end

	tail []string // last lines of the console
}

// run boots the guest and reads its records until it ends. After a deadline it requests the guest's
// stacks and stops it.
func (b *boot) run(ctx context.Context, console, records *os.File) error {
	m := b.machine
	vm, err := machine.Start(machine.Config{
		Kernel: b.guest.Kernel.Path, Initramfs: b.guest.Image, Command: b.guest.command(), Append: strings.Join(b.guest.arguments(), " "),
		CPUs: b.guest.Kernel.CPUs, Memory: m.Mem, QEMU: m.QEMU, Console: console, Results: records,
	})
	if err != nil {
		b.refused = err.Error()
		fmt.Fprintln(console, b.refused)
		return nil
	}
	defer vm.Stop()
	b.received = b.begin
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for b.late == "" {
		ended := false
		select {
		case <-vm.Done():
			ended = true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		b.total = time.Since(b.begin)
		if err := vm.Records(b.addRecord); err != nil {
			return err
		}
		if ended {
			if b.end == nil {
				fmt.Fprint(console, vm.Errors())
			}
			return nil
		}
		b.late = b.deadline(time.Now())
	}
	fmt.Fprintln(console, stacksMark)
	limit, cancel := context.WithTimeout(ctx, stacksLimit)
	defer cancel()
	if err := vm.PrintStacks(limit); err != nil {
		fmt.Fprintln(console, "quark-matrix: "+err.Error())
	}
	vm.Stop()
	b.total = time.Since(b.begin)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return vm.Records(b.addRecord)
}

// deadline returns the deadline that has passed, "" for none.
func (b *boot) deadline(now time.Time) string {
	m := b.machine
	switch {
	case b.end != nil && now.Sub(b.received) > m.Boot:
		b.waiting = "after its end record"
		return fmt.Sprintf("the machine did not power off within %v", m.Boot)
	case b.end != nil:
	case b.hello == nil && now.Sub(b.begin) > m.Boot:
		return fmt.Sprintf("deadline of %v to boot passed", m.Boot)
	case b.hello != nil && now.Sub(b.received) > m.Test:
		b.waiting = "between tests"
		if len(b.started) == 0 {
			b.waiting = "before the first test"
		}
		return fmt.Sprintf("deadline of %v for a test passed", m.Test)
	}
	return ""
}

// addRecord stores a record and its time.
func (b *boot) addRecord(rec any, err error) {
	b.add(rec, err)
	if err != nil {
		return
	}
	b.received = time.Now()
}

// finish reads the console of a guest that has ended, and writes the files that it sent to dir.
func (b *boot) finish(console *os.File, dir string) error {
	if name := b.files.Missing(); name != "" {
		b.add(nil, fmt.Errorf("%w: file %s is incomplete", record.ErrDamaged, name))
	}
	for name, content := range b.files.Whole {
		// path is below dir: record.Files rejects other names.
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if _, err := console.Seek(0, io.SeekStart); err != nil {
		return err
	}
	text, err := readConsole(console)
	if err != nil {
		return err
	}
	b.console, b.tail = text.complaints, append(text.tail, text.stacks...)
	return nil
}
