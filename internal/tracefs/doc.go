// Package tracefs reads the kernel's tracing file system, mounted or not.
//
// Where it is not mounted, it is opened as a mount of a file descriptor, without a directory
// (fsopen(2), Linux 5.2). No other process sees that mount, and it ends with this process.
package tracefs
