// Package thorough separates make test-all, which runs every test, from make test, which leaves out
// or shortens slow tests.
package thorough

import (
	"os"
	"testing"
)

// Variable is the environment variable that make test-all sets.
const Variable = "QUARK_TEST_ALL"

// Skip skips a test, unless make test-all runs it. why says why the test is left out.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		t.Skipf("%s: make test-all, or %s=1, runs it", why, Variable)
	}
}

// Rounds returns how often a test repeats: all in make test-all, else usual.
func Rounds(usual, all int) int {
	if os.Getenv(Variable) == "" {
		return usual
	}
	return all
}
