//go:build linux

package otlp_test

import (
	"context"
	"fmt"
	"os"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export/otlp"
)

// Send events to a collector, and print the outcome at the end.
func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer q.Close()
	e, err := otlp.New(q, otlp.Options{URL: "http://localhost:4318"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			break
		}
		e.Export(ev)
	}
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	n := e.Counts()
	fmt.Println(n.Taken, "events,", n.Delivered, "delivered, dropped:", n.Dropped)
}
