// Package poller waits until a queue's source has events, a timer expires or another goroutine
// ends the wait.
package poller
