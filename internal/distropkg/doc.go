// Package distropkg reads the packages of distributions, deb and rpm, file by file, in Go and
// without their tools: those of one distribution are not on the machines of another. A package of
// a kernel's debug information unpacks to a gigabyte, so no file is kept in memory.
//
// Signatures are not verified: who gives a package vouches for it. No byte of it is trusted
// otherwise.
package distropkg
