// Package auditrule controls the kernel's audit: its status, and the rules that select the recorded
// system calls. A key identifies the owner of a rule.
//
// The kernel identifies a rule by its content: it rejects a duplicate, and deleting a rule takes
// all of its content. So a listed rule is kept as the kernel's bytes.
package auditrule
