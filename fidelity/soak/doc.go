// Package soak runs queues of all backends for hours under generated lives, and says whether
// anything grew.
//
// One queue of each backend stays open; others are opened and closed amid the load, and commands
// that export events run beside, whose targets fail in turns. [Run] lets all of it rest once a
// minute and takes a [Sample]: what is in use then has no reason to be more an hour later, and
// [Grown] names what is. What the queues deliver is judged as package hunt does: what is missing
// has to be explained.
package soak
