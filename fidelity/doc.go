// Package fidelity compares what each backend delivers with the truth. Scenarios, whose processes
// record what they do (package scenario), run while all backends listen, and package score
// judges the events of each backend and defines the figures.
//
// [Perform] runs the scenarios. A difference between a backend and the truth is either explained
// by the backend's capability table or a defect: see [score.Score.Perfect].
package fidelity
