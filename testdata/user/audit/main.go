// Command audit writes a JSON line for each program that is executed: who ran what, with which ids.
// On SIGINT or SIGTERM it writes what happened until then and ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quark-linux/quark"
)

// line is one EXEC, or a loss of events. What is unknown is absent.
type line struct {
	Time   time.Time         `json:"time"`
	PID    uint32            `json:"pid,omitempty"`
	Parent uint32            `json:"parent,omitempty"` // who forked the process
	UID    *uint32           `json:"uid,omitempty"`
	EUID   *uint32           `json:"euid,omitempty"`
	Path   string            `json:"path,omitempty"`
	Args   []string          `json:"args,omitempty"`
	Lost   map[string]uint64 `json:"lost,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run() error {
	q, err := quark.Open(quark.Options{HoldTime: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	defer q.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { q.Drain() })()
	fmt.Fprintln(os.Stderr, "audit: listening to", q.Backend())
	return audit(q, os.Stdout)
}

// audit writes until the queue is drained.
func audit(q *quark.Queue, w io.Writer) error {
	out := json.NewEncoder(w)
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			return err
		}
		if ev.Events.Has(quark.EventGap) {
			if err := out.Encode(line{Time: ev.Wall, Lost: map[string]uint64{ev.Gap.Cause.String(): ev.Gap.Count}}); err != nil {
				return err
			}
		}
		for i := range ev.Parts {
			if part := &ev.Parts[i]; part.Kind == quark.KindExec {
				if err := out.Encode(execution(q, ev.Process, part)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// execution returns the line of an EXEC. The ids are those that the image began with.
func execution(q *quark.Queue, p *quark.Process, exec *quark.Part) line {
	l := line{Time: q.Clock().At(exec.Time), PID: p.PID}
	if p.Birth.Known.Has(quark.FieldPPID) {
		l.Parent = p.Birth.Parent.PID
	}
	if exec.Known.Has(quark.FieldUIDs) {
		l.UID, l.EUID = &exec.Cred.UID, &exec.Cred.EUID
	}
	if p.Known.Has(quark.FieldExe) {
		l.Path = p.Image.Exe
	}
	if p.Known.Has(quark.FieldArgs) {
		for arg := range p.Arguments() {
			l.Args = append(l.Args, string(arg))
		}
	}
	return l
}
