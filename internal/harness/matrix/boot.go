package matrix

import (
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

// Machine is how guests are booted and how long they may take. Zero fields have the defaults named.
type Machine struct {
	QEMU string // the emulator (qemu-system-ARCH)
	SMP  int    // virtual CPUs (2)
	Mem  int    // MiB (512)

	// Boot is the time until the hello (120 s), Test until a test that has started has its
	// result (180 s, which is more than quark-test gives it), All until the end (900 s). They
	// are for emulation on a loaded machine.
	Boot, Test, All time.Duration

	// Output takes what a guest's command hands out of its standard output and error; nil:
	// nobody wants it.
	Output func(record.Output)

	// Stacks is how long a guest that missed a deadline has to print its stacks (30 s).
	Stacks time.Duration
}

func (m Machine) withDefaults() Machine {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&m.Boot, 120*time.Second)
	def(&m.Test, 180*time.Second)
	def(&m.All, 900*time.Second)
	def(&m.Stacks, 30*time.Second)
	if m.SMP == 0 {
		m.SMP = 2
	}
	if m.Mem == 0 {
		m.Mem = 512
	}
	return m
}

// Progress is what a guest is at.
type Progress struct {
	Guest         string
	Planned, Done int    // jobs
	Failed        int    // of those done
	At            string // a job, or "booting" and the like
	Since         time.Time
}

// The files of a guest in its directory.
const (
	ConsoleFile = "console.log"
	recordsFile = "records.jsonl"

	FilesDir = "files" // what it handed out
)

// poll is how often a guest's records are looked at.
const poll = 100 * time.Millisecond

// krun is the shell command that boots a guest by hand.
const krun = "./krun.sh"

// Run boots a guest and waits for its end. Its console and records are left in dir. The error is of
// this machine: what goes wrong in the guest is in the outcome.
func (m Machine) Run(ctx context.Context, g Guest, dir string, tell func(Progress)) (Outcome, error) {
	m = m.withDefaults()
	o := Outcome{Guest: g.Name(), Kernel: g.Kernel, BTF: g.BTF, Part: g.Part, Repro: g.Repro(krun, "")}
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
	b := &boot{machine: m, guest: g, tell: tell, begin: time.Now()}
	b.claims, b.output = g.claims(), m.Output
	if g.Part == PartCommand {
		b.command = strings.Join(g.Command, " ")
	}
	if err := b.run(ctx, console, records); err != nil {
		return o, fmt.Errorf("boot %s: %w", g.Name(), err)
	}
	if err := b.finish(console, filepath.Join(dir, FilesDir)); err != nil {
		return o, fmt.Errorf("judge %s: %w", g.Name(), err)
	}
	o.State, o.Reason, o.Cells = b.judge()
	for i, c := range o.Cells {
		if !c.State.Good() {
			o.Cells[i].Repro = g.Repro(krun, c.Test, ranWith(o.Cells, i)...)
		}
	}
	o.Hello, o.End, o.Console, o.Damaged = b.hello, b.end, b.console, b.damaged
	if o.State != record.Pass && o.State != record.Fail {
		o.Tail = b.tail
	}
	o.BootMS, o.FirstMS, o.LastMS = b.helloAt.Milliseconds(), b.firstAt.Milliseconds(), b.lastAt.Milliseconds()
	o.TotalMS = b.total.Milliseconds()
	return o, nil
}

// boot is a guest that runs.
type boot struct {
	evidence
	machine                         Machine
	guest                           Guest
	tell                            func(Progress)
	begin                           time.Time
	heard                           time.Time // of the last record
	helloAt, firstAt, lastAt, total time.Duration
	tail                            []string
}

// run boots the guest and reads its records until it ends. After a deadline it asks for the guest's
// stacks and ends it.
func (b *boot) run(ctx context.Context, console, records *os.File) error {
	m := b.machine
	vm, err := machine.Start(machine.Config{
		Kernel: b.guest.Kernel.Path, Initramfs: b.guest.Image, Command: b.guest.command(), Append: strings.Join(b.guest.arguments(), " "),
		CPUs: m.SMP, Memory: m.Mem, QEMU: m.QEMU, Console: console, Results: records,
	})
	if err != nil {
		b.refused = err.Error()
		fmt.Fprintln(console, b.refused)
		return nil
	}
	defer vm.Stop()
	b.heard = b.begin
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
		if err := vm.Records(b.note); err != nil {
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
	b.report("hangs; its stacks are being printed")
	fmt.Fprintln(console, stacksMark)
	limit, cancel := context.WithTimeout(ctx, m.Stacks)
	defer cancel()
	if err := vm.PrintStacks(limit); err != nil {
		fmt.Fprintln(console, "quark-matrix: "+err.Error())
	}
	vm.Stop()
	b.total = time.Since(b.begin)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return vm.Records(b.note)
}

// deadline says which deadline has passed, if any.
func (b *boot) deadline(now time.Time) string {
	m := b.machine
	switch {
	case b.end != nil && now.Sub(b.heard) > m.Boot:
		b.waiting = "after its end record"
		return fmt.Sprintf("the machine did not power off within %v", m.Boot)
	case b.end != nil:
	case b.hello == nil && now.Sub(b.begin) > m.Boot:
		return fmt.Sprintf("deadline of %v to boot passed", m.Boot)
	case b.hello != nil && now.Sub(b.heard) > m.Test:
		b.waiting = "between tests"
		if len(b.started) == 0 {
			b.waiting = "before the first test"
		}
		return fmt.Sprintf("deadline of %v for a test passed", m.Test)
	case now.Sub(b.begin) > m.All:
		b.waiting = "between tests"
		return fmt.Sprintf("deadline of %v for the guest passed", m.All)
	}
	return ""
}

// note takes a record and its time.
func (b *boot) note(rec any, err error) {
	b.take(rec, err)
	if err != nil {
		return
	}
	b.heard = time.Now()
	at := b.heard.Sub(b.begin)
	switch r := rec.(type) {
	case record.Hello:
		b.helloAt = at
		b.report("booted " + r.Kernel)
	case record.Start:
		if b.firstAt == 0 {
			b.firstAt = at
		}
		b.report(r.Test + " @ " + r.Backend)
	case record.Result:
		b.lastAt = at
		b.report("")
	case record.End:
		b.report("ended")
	}
}

func (b *boot) report(at string) {
	if b.tell == nil {
		return
	}
	failed := 0
	for _, r := range b.results {
		if !r.State.Good() {
			failed++
		}
	}
	b.tell(Progress{Guest: b.guest.Name(), Planned: len(b.plan), Done: len(b.results), Failed: failed, At: at, Since: time.Now()})
}

// finish looks at what a guest that has ended left: its files, which are written to dir, and its
// console.
func (b *boot) finish(console *os.File, dir string) error {
	if name := b.files.Missing(); name != "" {
		b.take(nil, fmt.Errorf("%w: file %s is not whole", record.ErrDamaged, name))
	}
	for name, content := range b.files.Whole {
		// below dir: Files takes no other
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
