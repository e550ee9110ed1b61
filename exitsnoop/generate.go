package exitsnoop

// The objects are committed, so that building needs neither clang nor libbpf's
// headers.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type task -type exit_event -type event_state -type counter -type filter programs programs/exitsnoop.bpf.c -- -O2 -Wall -Werror -I../internal/bpf
