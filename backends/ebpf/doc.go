// Package ebpf is the source of process events that runs programs in the kernel: CO-RE programs on
// the scheduler's raw tracepoints, which write one record per event into one ring that all CPUs
// share, or where the kernel has no such ring into a perf buffer of each CPU.
//
// The kernel need not offer its own BTF: types from elsewhere will do, see package backends/source.
// If a kernel lacks a feature, the fields or kinds of events that need it are missing, and
// [Source.Capabilities] shows them with the reason. Only a way to user space and the tracepoints of
// fork, exec and exit are required.
package ebpf

// The object is committed, so that building needs neither clang nor libbpf's headers.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type event -type exit_event -type text_event -type executable -type tallies -type tally -type event_kind -type event_known -type event_ids -type text_form -type cgroup_source programs programs/quark.bpf.c -- -O2 -Wall -Werror -I../../internal/bpf
// The same for perf buffers, of the same types.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem programs_perf perfPrograms programs/quark.bpf.c -- -O2 -Wall -Werror -DPERF_BUFFER -I../../internal/bpf
//go:generate rm programs_perf_bpfel.go
// The functions that load all objects into a struct are unused and cut from the output.
//go:generate sed -i -e /"io"/d -e /^...loadProgramsObjects/,/^...Do.not.access/{/^...Do/!d} programs_bpfel.go
