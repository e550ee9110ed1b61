// Package tracefs reads the kernel's tracing file system, mounted or not.
//
// If it is not mounted, the package opens it as a mount of a file descriptor, without a directory
// (fsopen(2), Linux 5.2). No other process sees that mount, and it ends with this process.
package tracefs
