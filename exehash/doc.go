// Package exehash computes the SHA-256 of the file that a process executes.
//
// [Cache.Sum] reads the file when it is asked, which is best done at the EXEC: a [quark.Event] does
// not wait for the file to be read. The cache is keyed by device, inode and ctime, and bounded.
package exehash
