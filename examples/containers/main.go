// Command containers counts the execs and exits in each container, for Prometheus:
//
//	curl http://localhost:9716/metrics
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"sync"

	"github.com/quark-linux/quark"
)

func main() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		log.Fatal(err) // the error names the missing privilege or kernel option
	}
	c := &counters{queue: q, counts: make(map[string]uint64)}
	http.Handle("/metrics", c)
	go func() { log.Fatal(http.ListenAndServe("localhost:9716", nil)) }()
	log.Fatal(c.count(context.Background()))
}

// counters count by metric and label.
type counters struct {
	queue  *quark.Queue
	mu     sync.Mutex
	counts map[string]uint64
}

// count counts events until ctx ends.
func (c *counters) count(ctx context.Context) error {
	for ev, err := range c.queue.Events(ctx) {
		if err != nil {
			return err
		}
		if ev.Events.Has(quark.EventGap) {
			continue // ServeHTTP reports lost events
		}
		id := "unknown"
		if in, known := ev.Process.Container(); known {
			id = in.ID // "" for a process outside containers
		}
		c.mu.Lock()
		if ev.Events.Has(quark.EventExec) {
			c.counts[fmt.Sprintf("container_execs_total{container=%q}", id)]++
		}
		if ev.Events.Has(quark.EventExit) && ev.Process.Known.Has(quark.FieldExit) {
			failed := ev.Process.Exit.WaitStatus != 0
			c.counts[fmt.Sprintf("container_exits_total{container=%q,failed=\"%t\"}", id, failed)]++
		}
		c.mu.Unlock()
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (c *counters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for metric, n := range c.counts {
		fmt.Fprintln(w, metric, n)
	}
	if s, err := c.queue.Stats(); err == nil {
		fmt.Fprintln(w, "quark_lost_events_total", s.Lost())
	}
}
