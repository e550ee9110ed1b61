// Package truth is what really happened: the records that processes of a scenario
// write about themselves, and the lives that are put together from them.
//
// A record is written from inside, by the process that did the thing or by its
// parent with what a system call returned. Its two clock readings, one before and
// one after, bound when the kernel can have stamped the event; two events of which
// one's latest is before the other's earliest time happened in that order.
//
// Nothing here uses the code of a backend, which would agree with itself.
package truth
