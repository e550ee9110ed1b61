// Package prom exports a queue's counters to Prometheus: events by kind and status, loss by cause,
// the sizes of the buffer and the table, the delay of delivery, and the counts of exporters.
//
// A Collector can be registered in any registry. A Server serves the metrics of a Collector by
// HTTP. grafana.json in this folder is a dashboard of these metrics.
package prom
