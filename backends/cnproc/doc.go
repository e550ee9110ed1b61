// Package cnproc is the source that needs nothing but a netlink socket: the kernel's
// proc connector (CONFIG_PROC_EVENTS, in every distribution kernel since 2.6.15). It
// reports forks, execs, exits, id changes, comm changes, ptrace and core dumps with kernel
// time stamps, and says of the processes no more than their numbers; the rest is read
// from /proc right after the event, which makes it cached, and left unknown where /proc
// shows another process or a later image.
//
// Two stages stand between the socket and the engine:
//
//	socket -> messages -> tracker -> facts -> enricher -> events -> engine
//	              \______________________________^
//	                  what a message changes
//
// The tracker takes messages only, in the order in which they come, and states facts:
// which of the exits, one a thread, ends the process, with which status, and what was
// lost. The enricher queues the facts, reads each new process or image once from /proc,
// and holds the event as long as a later message can show that the reading was of after
// a change, or of another process. What it has handed on is final.
//
// The kernel numbers its messages per CPU and the socket counts what it drops, so that
// loss is known exactly. The connector serves the initial pid and user namespaces only
// and needs CAP_NET_ADMIN before Linux 6.12.
package cnproc
