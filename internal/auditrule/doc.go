// Package auditrule is the control of the kernel's audit: its status, and the rules that choose
// the system calls that it records, each with a key that shows whose it is.
//
// The kernel knows a rule by its content: the same rule can't be there twice, and who deletes one
// names all of it. So a rule that is listed is kept as the bytes that the kernel has.
package auditrule
