// Package sourcetest holds what any source of events from the kernel must pass:
// processes whose doings are known, started as children of the test, and the
// wish that the source tells all of it and nothing else. Conformance has the
// tests; Main, Child, Run and the methods of Events are for those that only one
// backend needs. It is imported by tests alone.
package sourcetest
