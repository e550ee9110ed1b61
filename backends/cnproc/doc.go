// Package cnproc is the source that needs nothing but a netlink socket: the
// kernel's proc connector (CONFIG_PROC_EVENTS, in every distribution kernel since
// 2.6.15). It reports forks, execs, exits, id changes, comm changes, ptrace and
// core dumps with kernel time stamps, and says of the processes no more than their
// numbers; the rest is read from /proc right after the event, and left unknown
// where /proc cannot be shown to speak of the same process and the same image.
//
// The kernel numbers its messages per CPU and the socket counts what it drops, so
// that loss is known exactly. The connector serves the initial pid and user
// namespaces only and wants CAP_NET_ADMIN, before Linux 6.6 at least.
package cnproc
