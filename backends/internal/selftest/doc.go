// Package selftest checks a source with types that may not be the running kernel's.
//
// [Run] starts a tiny program, the witness. It compares the witness's FORK, EXEC and EXIT from the
// source with the values in /proc and those that this process has set as its parent. The witness
// runs from memory and needs no file. It has its own session, terminal, arguments and working
// directory on a mount: a value that was read at a wrong address differs.
package selftest
