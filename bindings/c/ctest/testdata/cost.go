// Command cost is cost.c in Go: it prints the number of events in a recording, and the CPU time in
// ns for reading them.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
)

func main() {
	rounds, err := strconv.Atoi(os.Args[2])
	check(err)
	var events, spent, pids int64
	for range rounds {
		file, err := os.Open(os.Args[1])
		check(err)
		reader, err := trace.NewReader(file)
		check(err)
		q, err := quark.New(reader, quark.Options{})
		check(err)
		spent -= now()
		n, sum := drain(q)
		spent += now()
		events, pids = events+n, pids+sum
		check(q.Close())
		check(file.Close())
	}
	fmt.Println(events, spent, pids)
}

func drain(q *quark.Queue) (events, pids int64) {
	for {
		ev, err := q.Get()
		switch {
		case err == nil:
			events++
			pids += int64(ev.Process.PID)
		case !errors.Is(err, quark.ErrNothing):
			log.Fatal(err)
		case q.Drained():
			return events, pids
		default:
			check(q.Block(100 * time.Millisecond)) // the timeout that cost.c uses
		}
	}
}

func now() int64 {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return t.Nano()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
