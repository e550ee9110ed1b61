// Package seccompfail makes system calls fail in this process and its children, by a seccomp
// filter, as on an older kernel that lacks the calls. So a test can simulate older kernels. The
// filter stays until the process exits, so a test runs itself again to use it.
package seccompfail
