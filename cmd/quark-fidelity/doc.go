// Command quark-fidelity compares what each backend delivers with the truth, which scenarios
// record themselves.
package main
