// Package testrun runs tests that are part of a program, in child processes: one
// that hangs, crashes or gives up its privileges does no harm to the others. It is
// made for machines that have nothing but the program: no Go, no shell, no other
// files.
//
// What a test leaves behind makes it fail: a descriptor, a mount, a kernel
// probe, a process. A test that does not apply skips and says why.
package testrun
