package meter

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
)

// Hold is the hold time of a monitor that prints.
const Hold = 100 * time.Millisecond

// Printing returns the options of the queue of a monitor that prints.
func Printing(set backends.Set, threads bool) quark.Options {
	return quark.Options{Backends: set, Strict: true, HoldTime: Hold, MinAgg: true, Threads: threads, FailedExecs: true}
}

// printEvents prints each event as a line of JSON, as quark-mon does, until SIGINT.
func printEvents(name string, set backends.Set) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	q, err := quark.Open(Printing(set, backends.ReportsThreads(name)))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		q.Drain() // it fails if the queue was closed
		q.Wake()
	})()
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	var line []byte
	for {
		ev, err := q.Get()
		switch {
		case err == nil:
			line = append(q.AppendJSON(line[:0], ev), '\n')
			_, err = out.Write(line)
		case errors.Is(err, engine.ErrNothing):
			if err = out.Flush(); err == nil && q.Drained() {
				return q.Close()
			}
			if err == nil {
				err = q.Block(-1)
			}
		}
		if err != nil {
			return errors.Join(err, q.Close())
		}
	}
}
