// Package perf reads tracepoints and probes through perf events: one ring per
// CPU, which all events of that CPU write to (perf_event_open(2)).
//
// Each record carries the count of its event, so that records which found no
// room are known by kind and number, also on kernels that only say how many
// were lost in all. After opening, nothing but descriptors and shared memory is
// used.
package perf
