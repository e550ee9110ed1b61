// Command supervise runs a command and prints how it and all its descendants end.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"os/exec"

	"github.com/quark-linux/quark/exitsnoop"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: supervise COMMAND [ARGUMENT...]")
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c, err := exitsnoop.Start(cmd)
	if err != nil {
		log.Fatal(err) // the error names the missing privilege or kernel option
	}
	defer c.Close()
	if err := report(os.Stdout, c.Exits(context.Background())); err != nil {
		log.Fatal(err)
	}
	used, err := c.Wait()
	fmt.Printf("%v: CPU %v, error: %v\n", os.Args[1:], used.CPU, err)
}

// report writes a line for each process that ends, also for those that outlive the command.
func report(w io.Writer, exits iter.Seq2[exitsnoop.Exit, error]) error {
	for exit, err := range exits {
		switch status := exit.WaitStatus(); {
		case errors.Is(err, exitsnoop.ErrLost):
			fmt.Fprintf(w, "%d: ended, its status was lost\n", exit.Pid)
		case err != nil:
			return err
		case status.Signaled():
			fmt.Fprintf(w, "%d: %v\n", exit.Pid, status.Signal())
		default:
			fmt.Fprintf(w, "%d: code %d\n", exit.Pid, status.ExitStatus())
		}
	}
	return nil
}
