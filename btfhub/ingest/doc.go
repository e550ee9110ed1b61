// Package ingest fills the archive of package btfhub: it reduces the types of
// whole kernels to those that quark reads, and finds kernels in directories laid
// out as btfhub-archive is.
//
// It is no part of package btfhub because it unpacks what comes compressed, and
// a program that only looks types up needs nothing of that.
package ingest
