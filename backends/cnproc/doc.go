// Package cnproc is the source that needs only a netlink socket: the kernel's proc connector
// (CONFIG_PROC_EVENTS, in every distribution kernel since 2.6.15). The connector reports forks,
// execs, exits, id changes, comm changes, ptrace and core dumps with kernel time stamps. It reports
// only the numbers of the processes. The source reads the rest from /proc right after the event:
// these fields are cached, and unknown if /proc shows another process or a later image.
//
// Two stages connect the socket to the engine:
//
//	socket -> messages -> tracker -> facts -> queue -> events -> engine
//	              \____________________________^
//	                  what a message changes
//
// The tracker receives only messages, in the order of arrival, and keeps a record for each pid. It
// states facts: which exit (one a thread) ends the process, with which status, and which messages
// were lost. The queue reads each new process or image once from /proc. Events leave it as soon as
// the socket is empty. Until then a message removes the fields that it changes.
//
// The kernel numbers its messages per CPU and the socket counts the messages that it drops, so that
// loss is known exactly. The connector serves the initial pid and user namespaces only and needs
// CAP_NET_ADMIN before Linux 6.12.
package cnproc
