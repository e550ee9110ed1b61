package quark_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quark-linux/quark"
)

// Print the commands that run during the next ten seconds, and how they end.
func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // says what is missing: a privilege, a kernel option
		return
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ev, err := range q.Events(ctx) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		p := ev.Process
		if exe, known := p.Exe(); known && ev.Events.Has(quark.EventExec) {
			fmt.Printf("%v: process %d executes %s\n", ev.Wall, p.PID, exe)
		}
		if ev.Events.Has(quark.EventExit) && p.Known.Has(quark.FieldExit) {
			fmt.Printf("%v: process %d ends with code %d, signal %d\n", ev.Wall, p.PID, p.Task.Exit.Code(), p.Task.Exit.Signal())
		}
	}
}
