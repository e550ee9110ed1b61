// Package ingest adds kernels to the archive of package btfhub: it finds them in directories with
// the layout of btfhub-archive, and reduces their types to those that quark reads.
//
// It is not a part of package btfhub, so that a program that only looks types up does not get the
// decompressors.
package ingest
