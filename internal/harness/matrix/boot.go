package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Machine is how guests are booted and how long they may take. Zero fields have the defaults named.
type Machine struct {
	Krun string // path of krun.sh (./krun.sh)
	SMP  int    // virtual CPUs (2)
	Mem  int    // MiB (512)

	// Boot is the time until the hello (120 s), Test until a test that has started has its result (180 s, which is more than
	// quark-test gives it), All until the end (900 s). They are for emulation on a loaded machine.
	Boot, Test, All time.Duration

	// Stacks is how long a guest that missed a deadline has to print its stacks until it is ended by force (30 s).
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
	if m.Krun == "" {
		m.Krun = "./krun.sh"
	}
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
	consoleFile = "console.log"
	recordsFile = "records.jsonl"

	FilesDir = "files" // what it handed out
)

// poll is how often a guest's records are looked at.
const poll = 100 * time.Millisecond

// Run boots a guest and waits for its end. Its console and records are left in dir. The error is of this machine: what goes
// wrong in the guest is in the outcome.
func (m Machine) Run(ctx context.Context, g Guest, dir string, tell func(Progress)) (Outcome, error) {
	m = m.withDefaults()
	o := Outcome{Guest: g.Name(), Kernel: g.Kernel, BTF: g.BTF, Repro: g.Repro(m.Krun, "")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, fmt.Errorf("make a directory for %s: %w", g.Name(), err)
	}
	if err := os.RemoveAll(filepath.Join(dir, FilesDir)); err != nil {
		return o, fmt.Errorf("remove the files of %s from before: %w", g.Name(), err)
	}
	console, err := os.Create(filepath.Join(dir, consoleFile))
	if err != nil {
		return o, fmt.Errorf("keep the console of %s: %w", g.Name(), err)
	}
	defer console.Close()
	b := &boot{machine: m, guest: g, tell: tell, begin: time.Now(), records: filepath.Join(dir, recordsFile)}
	if err := os.WriteFile(b.records, nil, 0o644); err != nil {
		return o, fmt.Errorf("keep the records of %s: %w", g.Name(), err)
	}
	b.claims = g.claims()
	if err := b.run(ctx, console); err != nil {
		return o, fmt.Errorf("boot %s: %w", g.Name(), err)
	}
	if err := b.finish(console); err != nil {
		return o, fmt.Errorf("judge %s: %w", g.Name(), err)
	}
	o.State, o.Reason, o.Cells = b.judge()
	for i, c := range o.Cells {
		if !c.State.Good() {
			o.Cells[i].Repro = g.Repro(m.Krun, c.Test, ranWith(o.Cells, i)...)
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
	records                         string
	splitter                        record.Splitter
	offset                          int64
	heard                           time.Time // of the last record
	helloAt, firstAt, lastAt, total time.Duration
	status                          int
	tail                            []string
}

// run starts krun.sh and waits for it, asking for stacks when a deadline passes.
func (b *boot) run(ctx context.Context, console *os.File) error {
	m := b.machine
	cmd := exec.Command(m.Krun, append([]string{b.guest.Image, b.guest.Kernel.Path}, b.guest.command()...)...)
	cmd.Env = append(os.Environ(),
		"KRUN_RESULTS="+b.records,
		"KRUN_SMP="+strconv.Itoa(m.SMP),
		"KRUN_MEM="+strconv.Itoa(m.Mem),
		"KRUN_APPEND="+strings.Join(b.guest.arguments(), " "),
		// Only for a day when nobody is there to ask for stacks any more.
		"KRUN_TIMEOUT="+strconv.Itoa(int((m.All+2*m.Stacks).Seconds())+60))
	cmd.Stdout, cmd.Stderr = console, console
	// A group of its own: an interrupt from the terminal is for us, who end the guests one by one. The kernel sends the
	// death signal when the thread that started the child ends, so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	b.heard = b.begin
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var lateAt, asked time.Time
	var stopped error
	cancelled := ctx.Done()
	for {
		select {
		case err := <-done:
			b.total = time.Since(b.begin)
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return err
			}
			b.status = cmd.ProcessState.ExitCode()
			// Whatever of its children outlived it.
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			return stopped
		case <-cancelled:
			cancelled, stopped, lateAt = nil, context.Cause(ctx), time.Now()
			cmd.Process.Signal(syscall.SIGTERM)
		case <-ticker.C:
		}
		if err := b.read(); err != nil {
			return err
		}
		now := time.Now()
		if b.late == "" && stopped == nil {
			if b.late = b.deadline(now); b.late != "" {
				lateAt = now
				b.report("hangs; its stacks are being printed")
			}
		}
		switch {
		case lateAt.IsZero():
		case now.Sub(lateAt) > m.Stacks+15*time.Second:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case now.Sub(lateAt) > m.Stacks:
			cmd.Process.Signal(syscall.SIGTERM)
		case stopped == nil && now.Sub(asked) > 2*time.Second: // again, should it have been busy
			cmd.Process.Signal(syscall.SIGUSR1)
			asked = now
		}
	}
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

// read takes what has come on the result port.
func (b *boot) read() error {
	f, err := os.Open(b.records)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := f.ReadAt(buf, b.offset)
		b.offset += int64(n)
		b.splitter.Feed(buf[:n], b.note)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
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

// krun.sh's exit statuses for a guest that it did not boot.
const (
	krunUsage     = 2
	krunNotBooted = 126
)

// finish reads what is left when the guest has ended: the last records and the console.
func (b *boot) finish(console *os.File) error {
	if err := b.read(); err != nil {
		return err
	}
	b.splitter.Flush(b.note)
	if name := b.files.Missing(); name != "" {
		b.take(nil, fmt.Errorf("%w: file %s is not whole", record.ErrDamaged, name))
	}
	for name, content := range b.files.Whole {
		path := filepath.Join(filepath.Dir(b.records), FilesDir, filepath.FromSlash(name)) // which is a local one
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
	if b.hello == nil && (b.status == krunUsage || b.status == krunNotBooted) && len(text.tail) > 0 {
		b.refused = text.tail[len(text.tail)-1]
	}
	return nil
}
