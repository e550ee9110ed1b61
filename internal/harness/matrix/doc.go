// Package matrix boots guests in parallel, one for each kernel and kind of work, and combines the
// results of their tests in one table.
//
// Plan lists the guests, Machine boots one by package machine and reads its records until it ends
// or misses a deadline (boot.go), evidence.go derives the states of the guest and of its cells,
// Cache keeps the outcomes of guests that need not run again, and Results writes the reports.
package matrix
