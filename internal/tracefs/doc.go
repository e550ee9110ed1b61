// Package tracefs reads the kernel's tracing file system, whether it is mounted or not.
//
// If it is not mounted, the package creates a detached mount, which has a descriptor but no
// directory (fsopen(2), Linux 5.2). No other process sees that mount, and it ends with this
// process.
package tracefs
