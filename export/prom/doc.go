// Package prom shows a queue's counters to Prometheus: events by kind and status, loss by cause,
// what the buffer and the table hold, how late events are delivered, and what exporters have done.
//
// A Collector is for any registry. Server serves one by HTTP. grafana.json in this folder is a
// dashboard of these metrics.
package prom
