// Package bench measures throughput and cost of quark's backends next to those of
// other programs, under the same load, in one run.
package bench
