package prom

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
)

// Options configure a collector. The zero value is for a queue with the defaults of [quark.Options]
// and without exporters.
type Options struct {
	// HoldTime and MaxLength are the options of the queue; 0 is the queue's default.
	HoldTime  time.Duration
	MaxLength int
	// Exporters are the exporters whose counts of events are included.
	Exporters []export.Counter
}

// Collector is a prometheus.Collector of one queue. Count is for the goroutine that reads the
// queue. Any goroutine may call the other methods, which delay Get no longer than Stats does.
type Collector struct {
	q     *quark.Queue
	o     Options
	tally tally
	lag   prometheus.Histogram
}

// New returns a collector for q.
func New(q *quark.Queue, o Options) *Collector {
	o.HoldTime = cmp.Or(o.HoldTime, time.Second)
	o.MaxLength = cmp.Or(o.MaxLength, 10000)
	return &Collector{q: q, o: o, lag: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "quark_delivery_lag_seconds",
		Help:    "Time from an event to its delivery, beyond the hold time.",
		Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})}
}

// Count counts an event that Get has returned.
func (c *Collector) Count(ev *quark.Event) {
	c.tally.count(ev)
	if ev.Events == quark.EventGap {
		return
	}
	late := int64(c.q.Clock().Now()-ev.Time) - int64(c.o.HoldTime)
	c.lag.Observe(time.Duration(max(0, late)).Seconds())
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descInfo   = desc("quark_info", "The backend, and where it has the kernel's types from.", "backend", "types")
	descEvents = desc("quark_events_total", "Delivered events, joined ones in their parts.", "kind", "status", "scope")
	descLost   = desc("quark_lost_events_total", "Events known to be lost between the kernel and the queue.", "cause")

	descTaken     = desc("quark_export_taken_events_total", "Events that an exporter was given.", "exporter")
	descDelivered = desc("quark_export_delivered_events_total", "Events that the exporter's target has taken.", "exporter")
	descQueued    = desc("quark_export_queued_events", "Events that wait for the exporter's target.", "exporter")
	descDropped   = desc("quark_export_dropped_events_total", "Events that an exporter has given up.", "exporter", "cause")
)

// figure is a metric without labels.
type figure struct {
	name, help string
	kind       prometheus.ValueType
	value      float64
}

func (f *figure) desc() *prometheus.Desc { return desc(f.name, f.help) }

// figures returns the metrics without labels of a queue's statistics.
func (c *Collector) figures(s *quark.Stats) []figure {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	bound := 0.0
	if s.Source.Bound {
		bound = 1
	}
	return []figure{
		{"quark_produced_events_total", "Events that the kernel reported or tried to report.", counter, float64(s.Source.Produced)},
		{"quark_raw_events_total", "Raw events that came into the buffer.", counter, float64(s.Insertions)},
		{"quark_delivered_events_total", "Delivered events, joined ones as one.", counter, float64(s.Aggregations + s.NonAggregations)},
		{"quark_filtered_events_total", "Events that a filter left out.", counter, float64(s.Filtered)},
		{"quark_unsure_events_total", "Events delivered although it is not known whether they match the filter.", counter, float64(s.Unsure)},
		{"quark_late_events_total", "Events delivered after a younger one, as the buffer was full.", counter, float64(s.Late)},
		{"quark_lost_is_lower_bound", "1 while more is lost than quark_lost_events_total says.", gauge, bound},
		{"quark_unread_events_total", "Events that could not wait until /proc was read.", counter, float64(s.Source.Unread)},
		{"quark_blocked_processes_total", "Processes that could not be read from /proc in time, as their address space was locked.",
			counter, float64(s.Source.Blocked)},
		{"quark_buffered_events", "Raw events that wait in the buffer.", gauge, float64(s.Buffered)},
		{"quark_buffer_capacity_events", "Raw events that the buffer takes.", gauge, float64(c.o.MaxLength)},
		{"quark_hold_time_seconds", "How long events are held to be ordered and joined.", gauge, c.o.HoldTime.Seconds()},
		{"quark_processes", "Processes in the table, with those that ended a moment ago.", gauge, float64(s.Processes)},
		{"quark_forgotten_processes_total", "Processes forgotten after their grace time.", counter, float64(s.GarbageCollections)},
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInfo, descEvents, descLost, descTaken, descDelivered, descQueued, descDropped} {
		out <- d
	}
	for _, f := range c.figures(new(quark.Stats)) {
		out <- f.desc()
	}
	c.lag.Describe(out)
}

// Collect implements prometheus.Collector. After the queue's Close it reports os.ErrClosed.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s, err := c.q.Stats()
	if err != nil {
		out <- prometheus.NewInvalidMetric(descInfo, err)
		return
	}
	out <- prometheus.MustNewConstMetric(descInfo, prometheus.GaugeValue, 1, s.Backend, label(s.Types))
	for _, f := range c.figures(&s) {
		out <- prometheus.MustNewConstMetric(f.desc(), f.kind, f.value)
	}
	for l := range quark.Loss(quark.NumLosses) {
		out <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(s.Source.Lost[l]), l.String())
	}
	c.tally.collect(out)
	c.lag.Collect(out)
	c.collectExporters(out)
}

// label returns a string, such as a file name, as a valid label value. Invalid UTF-8 becomes "?":
// Prometheus rejects U+FFFD in a query.
func label(text string) string { return strings.ToValidUTF8(text, "?") }

func (c *Collector) collectExporters(out chan<- prometheus.Metric) {
	for _, e := range c.o.Exporters {
		n, name := e.Counts(), label(e.Name())
		out <- prometheus.MustNewConstMetric(descTaken, prometheus.CounterValue, float64(n.Taken), name)
		out <- prometheus.MustNewConstMetric(descDelivered, prometheus.CounterValue, float64(n.Delivered), name)
		out <- prometheus.MustNewConstMetric(descQueued, prometheus.GaugeValue, float64(n.Queued), name)
		for cause, dropped := range n.Dropped {
			out <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(dropped), name, cause)
		}
	}
}
