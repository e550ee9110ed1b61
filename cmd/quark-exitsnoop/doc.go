// Command quark-exitsnoop tells how processes ended, also such that are not its
// children and ended while nobody looked. See docs/quark-exitsnoop.8 or run
// quark-exitsnoop -h.
package main
