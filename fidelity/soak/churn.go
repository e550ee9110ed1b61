package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/witness"
)

// churn opens queues of each backend and closes them, one after the other, until ctx ends. Each
// reads for a while, after which all that was produced has to have been read or lost. Every second
// one has an orderly end.
type churn struct {
	backends []string
	patience time.Duration
	rng      *rand.Rand
	opened   int
	findings []string
}

func (c *churn) run(ctx context.Context) error {
	for ctx.Err() == nil {
		name := c.backends[c.opened%len(c.backends)]
		if err := c.one(ctx, name); err != nil {
			return fmt.Errorf("%s, opened amid the load: %w", name, err)
		}
		c.opened++
	}
	return nil
}

func (c *churn) one(ctx context.Context, name string) (err error) {
	opts := quark.Options{HoldTime: 100 * time.Millisecond, MinAgg: c.rng.IntN(2) == 0, CacheGraceTime: grace}
	if c.rng.IntN(3) == 0 { // so little room that events are lost, each of which is counted
		opts.MaxLength = 1000
		opts.EBPF.RingSize, opts.KProbe.RingSize = 16<<10, 16<<10
		opts.CNProc.ReceiveBuffer, opts.Audit.ReceiveBuffer = 16<<10, 16<<10
	}
	l, err := fidelity.OpenQueue(name, opts, false)
	if err != nil {
		return err
	}
	w := witness.New(l, nil, false)
	l.Start()
	defer func() {
		_, err2 := w.Close()
		err = errors.Join(err, err2)
	}()
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(100+c.rng.IntN(2000)) * time.Millisecond):
	}
	s, ok, err := l.Balanced(c.patience)
	if err == nil && !ok {
		c.findings = append(c.findings, fmt.Sprintf("%s, opened amid the load: %d events produced, %d read, %d lost", name, s.Source.Produced, s.Insertions, s.Lost()))
	}
	if err == nil && c.opened/len(c.backends)%2 == 1 {
		err = w.Drain(c.patience)
	}
	return err // it is closed, every second one with whatever is queued
}
