// Command supervise runs a command until it ends, and prints the exits of the command and its
// descendants.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"

	"github.com/quark-linux/quark"
)

func main() {
	where, err := quark.CompareFilter("tree", "==", strconv.Itoa(os.Getpid()))
	if err != nil {
		log.Fatal(err)
	}
	q, err := quark.Open(quark.Options{Where: where})
	if err != nil {
		log.Fatal(err) // names the missing privilege or kernel option
	}
	defer q.Close()
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	ctx, done := context.WithCancel(context.Background())
	go func() {
		defer done() // Events then yields all earlier events, and ends
		log.Println(os.Args[1:], cmd.Run())
	}()
	if err := report(ctx, q, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// report writes a line for each process that ends.
func report(ctx context.Context, q *quark.Queue, w io.Writer) error {
	for ev, err := range q.Events(ctx) {
		if err != nil {
			return err
		}
		if p := ev.Process; ev.Events.Has(quark.EventExit) && p.Known.Has(quark.FieldExit) {
			args, _ := p.Args()
			lived, _ := p.Duration()
			fmt.Fprintf(w, "%d %q: code %d, signal %d, after %v\n", p.PID, args, p.Exit.Code(), p.Exit.Signal(), lived)
		}
	}
	return nil
}
