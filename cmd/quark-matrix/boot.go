package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/machine"
	"github.com/quark-linux/quark/internal/harness/record"
)

const bootUsage = `usage: ./krun.sh INITRAMFS KERNEL COMMAND [ARGUMENT...]

Boots KERNEL (an x86 bzImage or vmlinux, an arm64 Image, also compressed) with
INITRAMFS (built by ` + "`make initramfs.gz`" + `) and runs COMMAND in the guest. COMMAND is
looked up in /bin. The console goes to standard output.

environment:
  KRUN_SMP      virtual CPUs (2)
  KRUN_MEM      memory in MiB (512)
  KRUN_TIMEOUT  seconds until the guest's stacks are printed and the guest is killed (300)
  KRUN_RESULTS  file for the guest's records, one JSON object per line (none)
  KRUN_APPEND   additional kernel parameters, such as audit=1; they replace
                parameters of the same name
  KRUN_ACCEL    kvm or tcg: the acceleration, instead of the first that works
  KRUN_STDIN    when 1: the command reads standard input through the console. This is
                the default for the command sh on a terminal. Control-A is qemu's
                escape: Control-A x ends the guest, Control-A A sends Control-A
  KRUN_VERBOSE  when set and not 0: all kernel messages on the console

SIGUSR1 has the effect of the deadline.

exit status: the command's (128 + N when signal N killed it), 124 when the
deadline passed, 125 when the guest did not report, 126 when it could not be
started, 2 for wrong usage.
`

// Exit statuses of krun.sh itself. Other statuses are those of the command.
const (
	hungStatus       = 124
	noReportStatus   = 125
	notStartedStatus = 126
)

// guestBoot is one call of krun.sh.
type guestBoot struct {
	stdin          *os.File
	stdout, stderr io.Writer
	getenv         func(string) string
	signals        <-chan os.Signal

	config  machine.Config
	timeout time.Duration
	input   bool // pass standard input to the command
}

// bootMain implements krun.sh. It returns the exit status.
func bootMain(args []string) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	b := &guestBoot{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, signals: signals}
	return b.main(args)
}

func (b *guestBoot) printf(format string, args ...any) {
	fmt.Fprintf(b.stderr, "krun.sh: "+format+"\n", args...)
}

func (b *guestBoot) main(args []string) int {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		io.WriteString(b.stdout, bootUsage)
		return 0
	}
	if err := b.parse(args); err != nil {
		return b.printError(err)
	}
	if path := b.getenv("KRUN_RESULTS"); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return b.printError(fmt.Errorf("cannot write KRUN_RESULTS file: %w", err))
		}
		defer f.Close()
		b.config.Results = f
	}
	if b.input {
		restore, err := setRawMode(b.stdin)
		if err != nil {
			return b.printError(fmt.Errorf("cannot set the terminal's mode: %w", err))
		}
		defer restore()
		b.config.Input = b.stdin
	}
	vm, err := machine.Start(b.config)
	if err != nil {
		return b.printError(err)
	}
	return b.waitForEnd(vm)
}

// printError prints why no guest runs, and returns the exit status.
func (b *guestBoot) printError(err error) int {
	b.printf("%v", err)
	if usage := machine.UsageError(""); errors.As(err, &usage) {
		b.printf("try ./krun.sh -h")
		return unusable
	}
	return notStartedStatus
}

// waitForEnd waits for the end of the guest, and stops the guest after the deadline or a signal. It
// returns the exit status.
func (b *guestBoot) waitForEnd(vm *machine.VM) int {
	stopReason := ""
	deadline := time.After(b.timeout)
	for stopReason == "" {
		select {
		case <-vm.Done():
			return b.printResult(vm, stopReason)
		case <-deadline:
			stopReason = fmt.Sprintf("deadline: the guest did not end within %.0f s (KRUN_TIMEOUT)", b.timeout.Seconds())
		case s := <-b.signals:
			if s != syscall.SIGUSR1 {
				return b.stopOnSignal(vm, s)
			}
			stopReason = "stopped the guest (SIGUSR1)"
		}
	}
	b.printf("the guest's stacks:")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	printed := make(chan error, 1)
	go func() { printed <- vm.PrintStacks(ctx) }()
	for {
		select {
		case err := <-printed:
			if err != nil {
				b.printf("%v", err)
			}
			vm.Stop()
			return b.printResult(vm, stopReason)
		case s := <-b.signals:
			if s != syscall.SIGUSR1 {
				return b.stopOnSignal(vm, s)
			}
		}
	}
}

func (b *guestBoot) stopOnSignal(vm *machine.VM, s os.Signal) int {
	b.printf("stopped by %s", unix.SignalName(s.(syscall.Signal)))
	vm.Stop()
	return 128 + int(s.(syscall.Signal))
}

// printResult prints how the guest ended and returns the exit status. stopReason is the reason why
// the guest was stopped, or empty if it ended by itself.
func (b *guestBoot) printResult(vm *machine.VM, stopReason string) int {
	hello := false
	var end *record.End
	err := vm.Records(func(rec any, _ error) {
		switch r := rec.(type) {
		case record.Hello:
			hello = true
		case record.End:
			end = &r
		}
	})
	if err != nil {
		b.printf("%v", err)
	}
	if end != nil {
		if end.Error != "" {
			b.printf("the guest reports: %s", end.Error)
		}
		return end.Status
	}
	why := vm.Panic()
	if stopReason != "" {
		b.printf("%s", strings.TrimSuffix(stopReason+"; "+why, "; "))
		return hungStatus
	}
	if why == "" {
		why = "the guest ended after its hello without an end record"
		if !hello {
			why = "no hello record, so the guest did not boot (KRUN_VERBOSE=1 shows the kernel's messages)"
		}
	}
	b.printf("the guest did not report: %s", why)
	io.WriteString(b.stderr, vm.Errors())
	return noReportStatus
}

// parse reads the arguments and the environment.
func (b *guestBoot) parse(args []string) (err error) {
	c := &b.config
	c.Console = b.stdout
	switch {
	case len(args) > 0 && strings.HasPrefix(args[0], "-"):
		return machine.UsageError("unknown option " + args[0])
	case len(args) < 3:
		return machine.UsageError("INITRAMFS, KERNEL and COMMAND are required")
	case args[2] == "":
		return machine.UsageError("the command is empty")
	default:
		c.Initramfs, c.Kernel, c.Command = args[0], args[1], args[2:]
	}
	seconds := 0
	for _, v := range []struct {
		to    *int
		name  string
		value int // default
	}{{&c.CPUs, "KRUN_SMP", 2}, {&c.Memory, "KRUN_MEM", 512}, {&seconds, "KRUN_TIMEOUT", 300}} {
		*v.to = v.value
		if text := b.getenv(v.name); text != "" {
			if *v.to, err = strconv.Atoi(text); err != nil || *v.to < 1 || *v.to > 9999999 {
				return machine.UsageError(fmt.Sprintf("%s is '%s', want a positive number", v.name, text))
			}
		}
	}
	b.timeout = time.Duration(seconds) * time.Second
	switch text := b.getenv("KRUN_STDIN"); text {
	case "":
		b.input = len(c.Command) > 0 && c.Command[0] == "sh" && isTerminal(b.stdin)
	case "0", "1":
		b.input = text == "1"
	default:
		return machine.UsageError(fmt.Sprintf("KRUN_STDIN is '%s', want 0 or 1", text))
	}
	switch c.Accel = machine.Accel(b.getenv("KRUN_ACCEL")); c.Accel {
	case "", machine.KVM, machine.TCG:
	default:
		return machine.UsageError(fmt.Sprintf("KRUN_ACCEL is '%s', want kvm or tcg", c.Accel))
	}
	verbose := b.getenv("KRUN_VERBOSE")
	c.Verbose = verbose != "" && verbose != "0"
	c.Append = b.getenv("KRUN_APPEND")
	return nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// setRawMode switches off echo, line editing and signals of a terminal, because the guest's
// terminal provides them. If f is not a terminal, setRawMode does nothing.
func setRawMode(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}, nil
	}
	raw := *before
	raw.Iflag &^= unix.BRKINT | unix.IGNPAR | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.ISTRIP | unix.INPCK | unix.IXON | unix.IXOFF
	raw.Lflag &^= unix.ICANON | unix.ISIG | unix.IEXTEN | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	return func() { unix.IoctlSetTermios(fd, unix.TCSETS, before) }, unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
}
