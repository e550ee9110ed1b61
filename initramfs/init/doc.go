//go:build linux

// Command init is pid 1 of a guest: it mounts what quark's tests need, brings the loopback
// interface up, runs one command and powers the machine off.
//
// The kernel command line tells it everything. Words that begin with "quark." are knobs (see
// options); what stands after "--" is the command. Results leave through the second serial port,
// one JSON record a line: a hello at the start, an end with the command's status as the last, and
// whatever the command itself writes to $QUARK_RESULTS between them.
//
// The kernel panics when pid 1 ends, so init never does: whatever goes wrong is said on the console
// and in the end record, and then the machine is powered off.
package main
