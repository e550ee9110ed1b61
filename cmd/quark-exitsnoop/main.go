package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	becomeCommand()
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "quark-exitsnoop: %v\n", err)
	}
	os.Exit(status)
}

// The exit status when it is not that of a command that was run.
const (
	statusFailed = 1
	statusUsage  = 2
)

// errUsage is wrong usage.
var errUsage = errors.New("see quark-exitsnoop -h")

func run(ctx context.Context, args []string, out, errw io.Writer) (status int, err error) {
	o, err := parse(args, errw)
	switch {
	case err != nil:
		return statusUsage, err
	case o.help:
		return 0, nil
	case o.version:
		_, err = fmt.Fprintf(out, "quark-exitsnoop %s\n", version())
	default:
		o.out = &printer{w: out, json: o.json}
		status, err = verbs[o.verb](ctx, o)
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		err = nil // whoever read our output has had enough
	case errors.Is(err, errUsage):
		return statusUsage, err
	case err != nil && status == 0:
		status = statusFailed
	}
	return status, err
}

// verbs are what it can do.
var verbs = map[string]func(context.Context, *options) (int, error){
	"run": runCommand, "trace": trace, "list": list, "status": status, "clean": clean,
}

// version is that of the module, or "(devel)".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
