// Package ecs makes documents of the Elastic Common Schema from quark's events.
//
// A document has the event, the process with its parent, its leaders and its container, and the
// host. What quark does not know is absent. What the schema has no place for is below "quark": what
// is cached, what was cut, how a signal ended a process, which events were lost.
package ecs
