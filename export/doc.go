// Package export is what exporters of events have in common: how they account for what they take.
//
// The exporters are the packages below it. A program that imports quark gets none of them, and of
// what they depend on nothing.
package export
