// Package perf reads tracepoints and probes through perf events: one ring per
// CPU, which all events of that CPU write to (perf_event_open(2)).
//
// Each sample has the count of its event, so that lost samples are known by event and number even
// on kernels that report only how many records were lost in all. After opening, the package uses
// nothing but descriptors and shared memory.
package perf
