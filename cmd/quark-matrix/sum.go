package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/harness/gotest"
)

// sumVerb returns the verb that counts the results of make test: the Go tests of this machine and
// the last run in guests.
func sumVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "sum [-o DIR]", Short: "count the tests in go test -json output on standard input and in the last run"}
	dir := c.Flags().StringP("output", "o", "build/matrix", "directory of the results")
	return c, func(_ context.Context, _ []string, stdout io.Writer) (int, error) {
		s := gotest.Sum{Out: stdout}
		if err := s.GoTest(os.Stdin); err != nil {
			return unusable, fmt.Errorf("read standard input: %w", err)
		}
		r, err := load(*dir)
		if err != nil {
			return unusable, err
		}
		for _, rec := range r.All() {
			s.Add(rec.Job().String(), rec.State, rec.Reason)
		}
		if !s.Print() {
			return someFailed, nil
		}
		return allGood, nil
	}
}
