// Package export has the common part of exporters of events: how they account for the events they
// take.
//
// The exporters are the packages below it. A program that imports quark gets neither them nor their
// dependencies.
package export
