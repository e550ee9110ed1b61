// Command quark-matrix boots stock kernels, runs quark's tests in them and reports the results for
// each kernel and backend. See docs/quark-matrix.8.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/matrix"
)

// Exit statuses.
const (
	allGood    = 0
	someFailed = 1
	unusable   = 2 // wrong usage, or an error on this machine
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel(matrix.ErrInterrupted)
		signal.Stop(signals) // a second signal ends this process at once
	}()
	os.Exit(dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// dispatch runs the verb and returns its exit status.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status := allGood
	root := command.New(&cobra.Command{Use: "quark-matrix COMMAND [options]",
		Long: "Boots kernels under qemu, and runs quark's tests in them. Run it in quark's repository, as\nmake test-kernel does."})
	for _, v := range []func() (*cobra.Command, verb){runVerb, listVerb, reportVerb, sumVerb, mergeVerb, addVerb, execVerb} {
		c, do := v()
		c.RunE = func(c *cobra.Command, operands []string) (err error) {
			if status, err = do(c.Context(), operands, stdout); errors.Is(err, errUsage) {
				err = fmt.Errorf("%w (see %s -h)", err, c.CommandPath())
			}
			return err
		}
		root.AddCommand(command.New(c))
	}
	root.AddCommand(&cobra.Command{Use: "boot INITRAMFS KERNEL COMMAND [ARGUMENT...]", Short: "boot one kernel and run one command in it, as krun.sh does",
		DisableFlagParsing: true, Run: func(_ *cobra.Command, args []string) { status = bootMain(args) }})
	if err := command.Run(ctx, root, args, stdout); err != nil {
		fmt.Fprintf(stderr, "quark-matrix: %v\n", err)
		return unusable
	}
	return status
}

// verb runs a verb with its operands, and returns the exit status.
type verb func(ctx context.Context, operands []string, stdout io.Writer) (int, error)

// errUsage is wrapped by errors of the command line.
var errUsage = errors.New("wrong usage")
