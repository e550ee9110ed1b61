// Package exehash computes the SHA-256 of the file that a process executes.
//
// [Cache.Sum] reads the file when it is called, so call it at the EXEC: the process does not wait
// for the read. The cache is keyed by device, inode and ctime, and bounded.
package exehash
