// Package debian gets packages of Debian for guests: kernels, and the programs of others that are
// judged there.
//
// It uses the machine's own apt, with the machine's mirror and with signatures checked, but in a
// private state ([Apt]): the system's apt is unchanged, no privilege is needed, and packages of
// other releases and architectures can be had. No package is installed: [Files] and [Find] read a
// package's files.
package debian
