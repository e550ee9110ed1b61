// Package matrix boots guests side by side, one for each kernel and way of having its types, and
// makes one table of what the tests in them said.
//
// Package machine boots a guest; this package plans which (Plan), watches each by its records and
// deadlines (boot.go), decides what became of it (judge.go), remembers what need not run again
// (Cache) and reports (report*.go).
package matrix
