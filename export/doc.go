// Package export holds the common part of exporters of events: the counts of their events.
//
// The exporters are the packages below it. A program that imports only quark depends on none of
// them.
package export
