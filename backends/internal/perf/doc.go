// Package perf reads tracepoints and probes through perf events: one ring per CPU, shared by all
// events of that CPU (perf_event_open(2)).
//
// Each sample has the count of its event, so that the number of lost samples is known for each
// event, even on kernels that report only a total of lost records. After opening, the package uses
// only descriptors and shared memory.
package perf
