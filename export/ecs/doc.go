// Package ecs makes documents of the Elastic Common Schema from quark's events.
//
// A document has the event, the process with its parent, its leaders and its container, and the
// host. Unknown values are absent. Values for which the schema has no field are below "quark": the
// names of cached and cut fields, the signal that ended a process, lost events.
package ecs
