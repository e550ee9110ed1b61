// Command quark-compare runs a few short commands and prints, side by side,
// what each backend that this host can run saw of them.
package main
