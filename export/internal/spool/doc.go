// Package spool takes items from a goroutine that must not wait, and hands them in batches to a
// target that may be slow, away, or wrong.
//
// What waits is bounded in number and bytes. What finds no room, is refused, or is left at the end
// is counted by cause: taken = delivered + queued + dropped, at every moment. After items were
// dropped for lack of room one that says so follows, where the user of the package makes such.
package spool
