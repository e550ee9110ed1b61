// Package testrun runs tests that are part of a program. They run in child processes,
// so that a test which hangs, crashes or gives up its privileges does not harm others.
// The machine needs only the program: no Go, no shell, no other files.
//
// A test fails if it leaves something behind: a descriptor, a mount, a kernel probe, a
// process. A test that does not apply skips and says why.
package testrun
