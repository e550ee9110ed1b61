// Package pace has the descriptor that callers of a source wait on. A wake-up costs as much CPU
// time as reading many events, so under load the descriptor wakes at intervals instead of for each
// event. It is an epoll descriptor for the events' descriptors and a timer. Under load only the
// timer wakes the caller. Otherwise events wake it, and the timer wakes it when the source has work
// due.
package pace
