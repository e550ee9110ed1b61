// Command quark-fidelity says what each backend sees of scenarios that record their
// own truth.
package main
