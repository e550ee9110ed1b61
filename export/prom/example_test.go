//go:build linux

package prom_test

import (
	"context"
	"fmt"
	"os"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export/prom"
)

// Serve the counters of a queue at http://localhost:9715/metrics while its events are read.
func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer q.Close()
	c := prom.New(q, prom.Options{})
	s, err := prom.Listen("localhost:9715", c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer s.Close()
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		c.Count(ev)
	}
}
