// Package debian downloads Debian packages for guests: kernels, and other monitors that are tested
// there.
//
// It uses the machine's own apt, with the machine's mirror and with signatures checked, but in a
// private state ([Apt]): the system's apt is unchanged, no privilege is needed, and packages of
// other releases and architectures are available. No package is installed: [Files] and [Find] read
// a package's files.
package debian
