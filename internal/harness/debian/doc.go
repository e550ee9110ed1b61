// Package debian downloads Debian packages with kernels for guests.
//
// It uses the machine's own apt, with the machine's mirror and with signatures checked, but in a
// private state ([Apt]): the system's apt is unchanged, no privilege is needed, and packages of
// other releases and architectures are available. No package is installed: [Find] reads a file of a
// package.
package debian
