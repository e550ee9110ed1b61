//go:build linux

package trace_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
)

// Record the events that a queue reads, and replay them with other options.
func Example() {
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exec("/bin/false").Exit(1)

	var recording bytes.Buffer
	w, err := trace.NewWriter(&recording)
	if err != nil {
		fmt.Println(err)
		return
	}
	show(quark.New(m, quark.Options{Record: w}))
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r, err := trace.NewReader(&recording)
	if err != nil {
		fmt.Println(err)
		return
	}
	show(quark.New(r, quark.Options{MinAgg: true}))
	// Output:
	// FORK+EXEC+EXIT of /bin/false
	// FORK of /bin/sh
	// EXEC of /bin/false
	// EXIT of /bin/false
}

// show prints the events of a queue.
func show(q *quark.Queue, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Events, "of", ev.Process.Image.Exe)
	}
}
