//go:build linux

// Command init is pid 1 of a guest: it mounts what quark's tests need, brings the loopback
// interface up, runs one command and powers the machine off.
//
// The words of the kernel command line that begin with "quark." are its options (see options); the
// words after "--" are the command. It writes JSON records, one a line, to the second serial port:
// a hello at the start and an end with the command's status at the end. The command writes others
// to $QUARK_RESULTS.
//
// The kernel panics when pid 1 ends, so init does not: it reports errors on the console and in the
// end record, and powers the machine off.
package main
