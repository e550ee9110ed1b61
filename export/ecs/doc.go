// Package ecs makes documents of the Elastic Common Schema from quark's events.
//
// A document has the event, the process with its parent, its leaders and its container, and the
// host. Unknown values are absent. Values for which the schema has no field are below "quark":
// which fields are cached or cut, how a signal ended a process, which events were lost.
package ecs
