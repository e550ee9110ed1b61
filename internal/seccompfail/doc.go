// Package seccompfail makes system calls fail in this process and its children, by a seccomp
// filter, as on an older kernel that lacks them. So a test can cover older kernels on any kernel.
// The filter stays until the process ends, so a test starts itself again for it.
package seccompfail
