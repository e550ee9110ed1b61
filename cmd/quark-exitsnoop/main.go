// Command quark-exitsnoop prints how processes ended: also processes that it did not start, and
// that ended while it was not running. See docs/quark-exitsnoop.8 or run quark-exitsnoop -h.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quark-linux/quark/internal/command"
)

func main() {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "quark-exitsnoop: %v\n", err)
	}
	os.Exit(status)
}

// Exit statuses. run returns the status of its command instead.
const (
	statusFailed = 1
	statusUsage  = 2
)

// errUsage marks errors of usage.
var errUsage = errors.New("see quark-exitsnoop -h")

func run(ctx context.Context, args []string, out io.Writer) (status int, err error) {
	begun := false
	err = command.Run(ctx, newCommand(func(ctx context.Context, v verb, o *options) (err error) {
		begun = true
		o.out = &printer{w: out, json: o.json}
		status, err = v(ctx, o)
		return err
	}), args, out)
	switch {
	case errors.Is(err, syscall.EPIPE):
		err = nil // the output was closed: not an error
	case err != nil && !begun || errors.Is(err, errUsage):
		status = statusUsage
	case err != nil && status == 0:
		status = statusFailed
	}
	return status, err
}
