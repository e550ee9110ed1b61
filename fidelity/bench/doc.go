// Package bench compares throughput and cost of quark's backends with those of other monitors,
// under the same load and in one run.
package bench
