// Command quark-matrix boots stock kernels, runs quark's tests in them and reports kernel by kernel
// and backend by backend. See docs/quark-matrix.8.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/matrix"
)

const usage = `usage: quark-matrix [run] [OPTION...] [KERNEL...]
       quark-matrix list [OPTION...] [KERNEL...]
       quark-matrix report [-o DIR] [--readme FILE] [--times]
       quark-matrix merge -o DIR DIR...
       quark-matrix coverage [-o DIR] [--host DIR] [--profile FILE]
       quark-matrix add [--images DIR] VMLINUZ [MODULES]
       quark-matrix exec --kernel KERNEL [OPTION...] BINARY [ARGUMENT...]
       quark-matrix boot INITRAMFS KERNEL COMMAND [ARGUMENT...]

run boots kernels under qemu and runs quark-test in them on every backend, and
once more, with the kernels' types hidden, those that show that it works then
(-t '*': all), and the Go tests of --packages, and writes its reports to DIR. KERNEL is
a name or a pattern such as '6.*-cloud'; without one the default rows of the
catalogue run. list says what run would boot. report shows the last run again.
merge puts the results of several runs together. coverage sums up what the tests
covered, on the host and in guests that ran with --wrap cover. add makes a row
local/RELEASE of a kernel image of any distribution; a config in the directory of its
modules is checked. exec runs a test binary in a guest:
go test -exec "$PWD/build/amd64/quark-matrix exec --kernel 6.1-cloud" ./backends/kprobe
boot is krun.sh: it boots one kernel and runs one command in it (./krun.sh -h).
All run in quark's repository, as make test-kernel does.

`

// Exit statuses.
const (
	allGood    = 0
	someFailed = 1
	unusable   = 2 // wrong usage, or an error of this machine
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "boot" {
		os.Exit(bootMain(os.Args[2:]))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel(matrix.ErrInterrupted)
		signal.Stop(signals) // a second one ends this process at once
	}()
	os.Exit(dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// dispatch runs the verb and returns its exit status.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbs := map[string]func(context.Context, []string, io.Writer) (int, error){
		"run": runMatrix, "list": list, "report": report, "merge": merge, "coverage": coverage, "exec": execTest, "add": addKernel,
	}
	verb := verbs["run"]
	if len(args) > 0 && verbs[args[0]] != nil {
		verb, args = verbs[args[0]], args[1:]
	}
	status, err := verb(ctx, args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return allGood
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "quark-matrix: %v (see quark-matrix -h)\n", err)
		return unusable
	case err != nil:
		fmt.Fprintf(stderr, "quark-matrix: %v\n", err)
		return unusable
	}
	return status
}

// errUsage is wrapped by errors of the command line.
var errUsage = errors.New("wrong usage")

// parse parses a verb's options, and prints help and version.
func parse(f *pflag.FlagSet, verb string, args []string, stdout io.Writer) error {
	shown, err := command.Parse(f, command.Syntax{Usage: usage + "Options of " + verb + ":\n"}, args, stdout)
	if shown {
		return pflag.ErrHelp
	}
	return err
}
