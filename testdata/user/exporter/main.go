// Command exporter serves how many events there were of each kind, and how many were lost for each
// cause, in the text format of Prometheus. Nothing is kept or read of the processes.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/quark-linux/quark"
)

// counter counts in one goroutine and is served in others.
type counter struct {
	queue *quark.Queue
	kinds [quark.NumKinds]atomic.Uint64
}

func main() {
	q, err := quark.Open(quark.Options{MinAgg: true, CNProc: quark.CNProcOptions{Enrich: quark.EnrichNone}})
	if err == nil {
		defer q.Close()
		c := &counter{queue: q}
		go http.ListenAndServe("localhost:9435", c)
		err = c.count()
	}
	fmt.Fprintln(os.Stderr, "exporter:", err)
	os.Exit(1)
}

func (c *counter) count() error {
	for ev, err := range c.queue.Events(context.Background()) {
		if err != nil {
			return err
		}
		for i := range ev.Parts {
			c.kinds[ev.Parts[i].Kind].Add(1)
		}
		if ev.Events.Has(quark.EventGap) {
			c.kinds[quark.KindGap].Add(1)
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (c *counter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	st, err := c.queue.Stats()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for k := range c.kinds {
		fmt.Fprintf(w, "quark_events_total{kind=%q} %d\n", quark.Kind(k), c.kinds[k].Load())
	}
	for cause, n := range st.Source.Lost {
		fmt.Fprintf(w, "quark_lost_total{cause=%q} %d\n", quark.Loss(cause), n)
	}
}
