// Package selftest checks whether a source works with types that may not be the running kernel's.
//
// [Run] starts a tiny program, the self-test child. It compares the child's FORK, EXEC and EXIT
// from the source with the values in /proc, and with the values that this process has set as the
// parent. The child runs from memory and needs no file. It has its own session, terminal, arguments
// and working directory on a mount, so a value that was read at a wrong address differs.
package selftest
