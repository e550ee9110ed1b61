// Package matrix boots guests side by side, one for each kernel and kind of work, and makes one
// table of the results of the tests in them.
//
// Plan lists the guests, Machine boots one by package machine and reads its records until it ends
// or misses a deadline (boot.go), judge.go derives the states of the guest and of its cells, Cache
// keeps what need not run again, and Results writes the reports.
package matrix
