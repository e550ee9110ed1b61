// Package perf reads tracepoints and probes through perf events: one ring per CPU, shared by all
// events of that CPU (perf_event_open(2)).
//
// Each sample contains the hit count of its event. So the package can count the lost samples of
// each event, even on kernels that report only a total of lost records. An open event needs only
// descriptors and shared memory.
package perf
