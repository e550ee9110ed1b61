// Package conform judges a bare [engine.Source], without the engine: every field
// that its capability table claims has to be right in every scenario.
//
// The lives are those of fidelity/scenario, the truth is that of fidelity/truth and
// the rules are those of fidelity/score. [Test] runs all scenarios; [Judge] runs some
// with a source that a test has opened in a special way. [Main], [Child], [Run] and
// [Drain] are for tests of what only one source has: its loss, its lifecycle, its
// privileges. Only tests import this package.
package conform
