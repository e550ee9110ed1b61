// Package fidelity says, against ground truth, what each backend sees: scenarios
// whose processes write down what they do (package scenario) run under all backends
// at once, and what those deliver is scored (package score, which defines the
// figures).
//
// [Perform] runs the scenarios. Each difference between a backend and the truth, and
// so between two backends, is either explained by the backend's capability table or
// a defect: see [score.Score.Perfect].
package fidelity
