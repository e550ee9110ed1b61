// Package export is what exporters of events have in common: how they account for what they take.
//
// The exporters are the packages below it. A program that imports quark gets neither them nor their
// dependencies.
package export
