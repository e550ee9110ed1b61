// Command quark-export exports the activity of processes: counters to Prometheus, log records to an
// OpenTelemetry collector, documents of the Elastic Common Schema to a file. See
// docs/quark-export.8.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/internal/command"
)

func main() {
	// With SIGPIPE ignored, a write to a closed pipe is an error, so that the program detaches
	// from the kernel before it exits.
	signal.Ignore(syscall.SIGPIPE)
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "quark-export: %v\n", err)
		if errors.As(err, new(*droppedError)) {
			os.Exit(statusDropped)
		}
		os.Exit(1)
	}
}

// statusDropped is the exit status if the only problem was dropped events. Status 2 is a panic of a
// Go program.
const statusDropped = 3

func run(args []string, out, errw io.Writer) error {
	return command.Run(context.Background(), newCommand(func(ctx context.Context, o *options) error { return o.run(ctx, out, errw) }), args, out)
}

func (o *options) run(ctx context.Context, out, errw io.Writer) error {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if o.output == "" && !signal.Ignored(syscall.SIGHUP) { // unless nohup(1) ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if o.duration > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	q, err := o.open(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(errw, "quark-export: %s\n", o.Describe(q))
	targets, err := o.targets(q, out, errw)
	for _, t := range targets {
		fmt.Fprintf(errw, "quark-export: %s\n", t)
	}
	if err == nil {
		err = export(ctx, q, targets, !o.noSnapshot)
	}
	if errors.Is(err, syscall.EPIPE) {
		err = nil // the reader closed the pipe
	}
	dropped := new(droppedError)
	for _, t := range targets {
		err = errors.Join(err, t.close())
		dropped.add(t.counter, errw)
	}
	if err := errors.Join(err, q.Close()); err != nil || dropped.events == 0 {
		return err
	}
	return dropped
}

// open opens a queue of the kernel or of a recording.
func (o *options) open(ctx context.Context) (*quark.Queue, error) {
	if !o.recorded {
		return o.Open(ctx)
	}
	f, err := os.Open(o.replay)
	if err != nil {
		return nil, err
	}
	r, err := trace.NewReader(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.replay, err), f.Close())
	}
	return quark.New(r, o.Queue)
}

// export passes the initial processes and all events to the targets, until ctx ends and all earlier
// events are exported.
func export(ctx context.Context, q *quark.Queue, targets []target, snapshot bool) error {
	if snapshot {
		for p := range q.Processes() {
			ev := quark.Event{Process: p, TID: p.PID, Time: p.AsOf(), Wall: q.Clock().At(p.AsOf())}
			if !q.Passes(&ev) {
				continue
			}
			if err := exportOne(targets, &ev); err != nil {
				return err
			}
		}
	}
	defer context.AfterFunc(ctx, func() { q.Drain() })()
	for ev, err := range q.Events(context.Background()) {
		if err == nil {
			err = exportOne(targets, ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func exportOne(targets []target, ev *quark.Event) error {
	for _, t := range targets {
		if err := t.export(ev); err != nil {
			return err
		}
	}
	return nil
}
