// Package refuse has the kernel refuse system calls to this process and to all that it starts, as
// an older kernel does that does not have them. So a test shows on any kernel what is done without
// them. The filter stays until the process ends, so a test starts itself again for it.
package refuse
