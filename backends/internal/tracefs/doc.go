// Package tracefs reads the kernel's tracing file system, mounted or not.
//
// Where it is not mounted, it is opened as a mount that belongs to a file
// descriptor and to no directory (fsopen(2), Linux 5.2): nobody else sees it
// and nothing is left behind, whatever becomes of this process.
package tracefs
