// Command quark-test tests quark on the running kernel. It needs only root, so
// that it also runs alone in an initramfs. See quark-test -h.
//
// Each test is a subtest of the Go test TestQuark. quark-test runs itself as a Go test binary and
// reads its output (package gotest); go test runs the same tests.
//
// Tests of processes run the scenarios of package fidelity/scenario that name the test, while all
// backends listen. Package fidelity/score compares the events of each backend with the ground
// truth. The other tests are about queues: opening, loss, types, wake-ups, CPUs that come and go,
// and exitsnoop. Each is in the file t_*.go of its subject.
package main
