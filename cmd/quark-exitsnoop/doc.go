// Command quark-exitsnoop prints how processes ended, also those that are not its children, and
// that ended while it did not run. See docs/quark-exitsnoop.8 or run quark-exitsnoop -h.
package main
