// Package nlsocket receives from netlink sockets as the sources need it: many messages with one
// system call, into memory that is used again, from the kernel alone, and with the count of what
// the socket dropped.
package nlsocket
