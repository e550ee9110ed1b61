// Package excerpt copies the wanted types out of a kernel's BTF.
//
// A kernel has more than 100,000 types, of which quark reads some dozens. Decoding and indexing all
// of them takes longer than the rest of opening a source. An excerpt is raw BTF with the wanted
// types only. It is made in one pass over the raw types, without decoding each.
package excerpt
