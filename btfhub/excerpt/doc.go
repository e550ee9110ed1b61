// Package excerpt takes the few types that are wanted out of a kernel's BTF.
//
// A kernel has more than 100,000 types, of which quark reads some dozens. To
// decode and index them all takes longer than anything else in opening a source.
// An excerpt is raw BTF itself, small enough for that to take no time, and is made
// in one pass over the raw types without a structure for each.
package excerpt
