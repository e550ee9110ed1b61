// Command containers counts for Prometheus the execs in each container and how its processes end.
//
//	curl http://localhost:9716/metrics
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export/prom"
)

func main() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c := newCounters(prometheus.DefaultRegisterer)
	prometheus.MustRegister(prom.New(q, prom.Options{})) // how many events were lost
	http.Handle("/metrics", promhttp.Handler())
	go func() { log.Fatal(http.ListenAndServe("localhost:9716", nil)) }()
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		c.count(ev)
	}
}

// counters count by the id of a container, which is empty for the host.
type counters struct{ execs, exits *prometheus.CounterVec }

func newCounters(r prometheus.Registerer) *counters {
	return &counters{
		promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "container_execs_total"}, []string{"container"}),
		promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: "container_exits_total"}, []string{"container", "status"}),
	}
}

func (c *counters) count(ev *quark.Event) {
	if ev.Process == nil || ev.Thread {
		return // a gap, or a single thread
	}
	id, status := "unknown", "unknown"
	if in, known := ev.Process.Container(); known {
		id = in.ID
	}
	if ev.Process.Known.Has(quark.FieldExit) {
		status = "success"
		if ev.Process.Exit.WaitStatus != 0 {
			status = "failure"
		}
	}
	for _, part := range ev.Parts {
		switch part.Kind {
		case quark.KindExec:
			c.execs.WithLabelValues(id).Inc()
		case quark.KindExit:
			c.exits.WithLabelValues(id, status).Inc()
		}
	}
}
