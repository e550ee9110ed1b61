// Package ebpf is the source of process events that runs programs in the kernel. The CO-RE programs
// run on the scheduler's raw tracepoints, and write one record per event. Records go to one ring
// that all CPUs share, or, if the kernel has no such ring, to a perf buffer of each CPU.
//
// The types can come from the kernel's own BTF or from a file, see package backends/source. The
// source requires the tracepoints of fork, exec and exit, and a way to pass records to user space.
// If the kernel lacks another feature, the fields or kinds of events that need the feature are
// missing. [Source.Capabilities] shows them with the reason.
package ebpf

// The object is committed, so that building needs neither clang nor libbpf's headers.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type event -type exit_event -type ns_event -type text_event -type executable -type stream -type tallies -type tally -type event_kind -type event_known -type event_ids -type text_form -type cgroup_source programs programs/quark.bpf.c -- -O2 -Wall -Werror -I../../internal/bpf
// The same programs for perf buffers, with the same types.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem programs_perf perfPrograms programs/quark.bpf.c -- -O2 -Wall -Werror -DPERF_BUFFER -I../../internal/bpf
//go:generate rm programs_perf_bpfel.go
// The functions that load all objects into a struct are unused. sed removes them.
//go:generate sed -i -e /"io"/d -e /^...loadProgramsObjects/,/^...Do.not.access/{/^...Do/!d} programs_bpfel.go
