package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/argv"
	"github.com/quark-linux/quark/internal/harness/record"
)

// Config describes a machine to boot. Zero fields mean the defaults in parentheses.
type Config struct {
	Kernel    string   // path of an x86 bzImage or vmlinux or an arm64 Image
	Initramfs string   // path
	Command   []string // for the guest's init to run
	Append    string   // words for the kernel's command line; replace those of the same name

	CPUs   int       // (2)
	Memory int       // MiB (512)
	Accel  Accel     // (the fastest that works)
	QEMU   string    // the emulator (qemu-system-ARCH, looked up in PATH)
	Input  io.Reader // input of the command (none)

	Verbose bool      // all kernel messages on the console
	Console io.Writer // receives the guest's output (dropped)
	Results *os.File  // receives the guest's records, for VM.Records (a file in memory)
}

// UsageError is an error in the caller's arguments. Other errors concern files and programs.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// longestCommandLine is COMMAND_LINE_SIZE - 1, the same on both architectures. The kernel silently
// ignores anything longer.
const longestCommandLine = 2047

// Describe returns one line about the machine that would boot a kernel: the architecture, the
// acceleration and qemu's version.
func Describe(c Config) (string, error) {
	k, err := readKernel(c.Kernel)
	if err != nil {
		return "", err
	}
	if err := c.complete(k); err != nil {
		return "", err
	}
	version, err := exec.Command(c.QEMU, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", c.QEMU, err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	return fmt.Sprintf("%s %s %s", architectures[k.arch].name, c.Accel, first), nil
}

// complete fills in the defaults.
func (c *Config) complete(k *kernel) error {
	c.QEMU = cmp.Or(c.QEMU, "qemu-system-"+architectures[k.arch].name)
	if _, err := exec.LookPath(c.QEMU); err != nil {
		return fmt.Errorf("%s not found: install the package %s", c.QEMU, architectures[k.arch].debian)
	}
	c.CPUs, c.Memory = cmp.Or(c.CPUs, 2), cmp.Or(c.Memory, 512)
	if c.Accel == "" {
		c.Accel = fastest(k.arch)
	}
	if c.Console == nil {
		c.Console = io.Discard
	}
	return nil
}

// arguments returns qemu's arguments for a complete configuration. qemu inherits two
// files: it writes the records to the first and boots the second. It boots k.path instead if the
// kernel needs no unpacking.
func (c *Config) arguments(k *kernel) ([]string, error) {
	parts := []Part{Board(k.arch), CPUs(k.arch, c.Accel, c.CPUs), Memory(c.Memory),
		Console(k.arch, c.Verbose), Results(k.arch, inheritedPath(0)), Quick()}
	if c.Input != nil {
		parts = append(parts, Input(k.arch))
	}
	image := inheritedPath(1)
	if k.file {
		image = k.path
	}
	parts = append(parts, Images(image, c.Initramfs))
	if strings.Contains(" "+c.Append+" ", " -- ") || strings.Contains(c.Append, "\n") {
		return nil, UsageError("the additional kernel arguments (KRUN_APPEND) contain -- or a newline: pass the command as operands")
	}
	all := Join(parts...)
	if c.Append != "" {
		all.Kernel = append(slices.DeleteFunc(all.Kernel, func(word string) bool { return replaced(word, c.Append) }), c.Append)
	}
	line := strings.Join(all.Kernel, " ") + " -- " + argv.Encode(c.Command)
	if len(line) > longestCommandLine {
		return nil, UsageError(fmt.Sprintf("the kernel command line would have %d bytes, but %d fit: pass fewer or shorter arguments",
			len(line), longestCommandLine))
	}
	return append(all.Args, "-append", line), nil
}

// replaced reports whether further sets the kernel parameter of word again. Then word must go,
// because audit stays off once a word switches it off. Several consoles may stay.
func replaced(word, further string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "console" && strings.Contains(" "+further, " "+name+"=")
}

// VM is a machine that Start booted.
type VM struct {
	cmd     *exec.Cmd
	console console
	input   *os.File // of the console
	stderr  bytes.Buffer
	done    chan struct{}

	results  *os.File
	offset   int64 // of the part of results that was read
	splitter record.Splitter
}

// Start boots a machine. The caller waits for its end or stops it.
func Start(c Config) (*VM, error) {
	if err := checkInitramfs(c.Initramfs); err != nil {
		return nil, err
	}
	k, err := readKernel(c.Kernel)
	if err != nil {
		return nil, err
	}
	if err := c.complete(k); err != nil {
		return nil, err
	}
	if c.Accel == TCG {
		k.unpack()
	}
	args, err := c.arguments(k)
	if err != nil {
		return nil, err
	}
	v := &VM{cmd: exec.Command(c.QEMU, args...), console: console{out: c.Console}, results: c.Results, done: make(chan struct{})}
	if v.results == nil {
		if v.results, err = memoryFile("results", nil); err != nil {
			return nil, err
		}
	}
	v.cmd.ExtraFiles = []*os.File{v.results}
	if !k.file {
		f, err := memoryFile("kernel", k.image)
		if err != nil {
			return nil, err
		}
		defer f.Close() // qemu has its own descriptor
		v.cmd.ExtraFiles = append(v.cmd.ExtraFiles, f)
	}
	if err := v.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.QEMU, err)
	}
	if c.Input != nil {
		go io.Copy(v.input, c.Input)
	}
	return v, nil
}

func (v *VM) start() error {
	input, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	v.input = w // never closed while qemu runs: the console has no end of file
	v.cmd.Stdin, v.cmd.Stdout, v.cmd.Stderr = input, &v.console, &v.stderr
	v.cmd.WaitDelay = 5 * time.Second
	// qemu has its own process group, so that control C at the terminal reaches only this
	// process, which then stops the guest.
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that started qemu, so this
		// goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := v.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		v.cmd.Wait()
		v.input.Close()
		close(v.done)
	}()
	return <-started
}

// Done returns a channel that is closed when the machine has ended and its output is written.
func (v *VM) Done() <-chan struct{} { return v.done }

// Stop stops the machine. It kills qemu if qemu has not ended after 5 seconds.
func (v *VM) Stop() {
	v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.done:
	case <-time.After(5 * time.Second):
		v.cmd.Process.Kill()
		<-v.done
	}
}

// Records calls f for each record since the last call. For a line that is not a record, the error
// wraps record.ErrDamaged. When the machine has ended, such a line may also be an unfinished one.
func (v *VM) Records(f func(rec any, err error)) error {
	ended := false // whether the machine ended before the last read
	select {
	case <-v.done:
		ended = true
	default:
	}
	b, err := io.ReadAll(io.NewSectionReader(v.results, v.offset, math.MaxInt64-v.offset))
	v.offset += int64(len(b))
	v.splitter.Feed(b, f)
	if err != nil {
		return fmt.Errorf("read the guest's records: %w", err)
	}
	if ended {
		v.splitter.Flush(f)
	}
	return nil
}

// Panic returns the kernel's panic message, or "".
func (v *VM) Panic() string {
	v.console.mu.Lock()
	defer v.console.mu.Unlock()
	return v.console.panic
}

// Errors returns qemu's standard error. The machine must have ended.
func (v *VM) Errors() string { return v.stderr.String() }

// requests are the system requests of PrintStacks, with the kernel's answers: print all messages on
// the console, stacks of CPUs, of blocked tasks, of all tasks.
var requests = []struct{ key, answer string }{
	{"9", "Changing Loglevel"}, {"l", "Show backtrace"}, {"w", "Show Blocked State"}, {"t", "Show State"},
}

// ErrNoAnswer means that a guest's kernel does not respond to system requests.
var ErrNoAnswer = errors.New("the guest does not respond to the request for its stacks")

// PrintStacks makes the kernel print the stacks of all tasks on the console. It returns when they
// are printed, the machine or ctx has ended, or the kernel does not answer.
func (v *VM) PrintStacks(ctx context.Context) (err error) {
	for _, r := range requests {
		if err = v.request(ctx, r.key, "sysrq: "+r.answer); err != nil {
			break
		}
	}
	// After a second without output all stacks are printed.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && v.console.quiet() < time.Second; {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		case <-v.done:
			return err
		}
	}
	return err
}

// request sends a system request over the serial console until the kernel confirms it on the
// console. In qemu's mux, control A and b send a break, and the key follows. Several attempts may
// be needed: a busy guest may read the break and the key together from the UART's buffer, and
// interpret the key as a character.
func (v *VM) request(ctx context.Context, key, answer string) error {
	seen := v.console.expect(answer)
	for range 4 {
		if _, err := io.WriteString(v.input, "\x01b"+key); err != nil {
			return ErrNoAnswer // qemu has ended
		}
		select {
		case <-seen:
			return nil
		case <-time.After(1500 * time.Millisecond):
		case <-ctx.Done():
			return ErrNoAnswer
		case <-v.done:
			return ErrNoAnswer
		}
	}
	return ErrNoAnswer
}
