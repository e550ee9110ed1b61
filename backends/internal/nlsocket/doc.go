// Package nlsocket receives from netlink sockets for the sources. It receives many messages with
// one system call into reused memory, accepts only messages from the kernel, and counts dropped
// messages.
package nlsocket
