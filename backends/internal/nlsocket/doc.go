// Package nlsocket receives from netlink sockets as the sources need it: many messages with one
// system call, into reused memory, from the kernel alone, and with the count of dropped messages.
package nlsocket
