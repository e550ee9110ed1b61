//go:build linux

// Command init is pid 1 of a guest: it mounts the file systems that quark's tests need, starts the
// loopback interface, runs one command and powers the machine off.
//
// Words of the kernel command line that begin with "quark." are its options (see options); the
// words after "--" are the command. It writes JSON records, one per line, to the second serial
// port: a hello at the start and an end with the command's status at the end. The command writes
// its records to $QUARK_RESULTS.
//
// The kernel panics when pid 1 ends, so init reports errors on the console and in the end record,
// and powers the machine off.
package main
