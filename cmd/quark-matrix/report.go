package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/harness/matrix"
)

// reportVerb returns the verb that prints the results of the last run, as after the run.
func reportVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "report [-o DIR]", Short: "print the results of the last run"}
	f := c.Flags()
	dir := f.StringP("output", "o", "build/matrix", "directory of the results")
	return c, func(_ context.Context, _ []string, stdout io.Writer) (int, error) {
		r, err := load(*dir)
		if err != nil {
			return unusable, err
		}
		return allGood, printResults(stdout, r, *dir)
	}
}

// mergeVerb returns the verb that merges the results of several runs and copies the guests' files.
func mergeVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "merge -o DIR DIR...", Short: "merge the results of several runs", Args: cobra.ArbitraryArgs}
	f := c.Flags()
	out := f.StringP("output", "o", "", "directory for the results")
	return c, func(_ context.Context, operands []string, stdout io.Writer) (int, error) {
		if *out == "" || len(operands) == 0 {
			return unusable, fmt.Errorf("%w: merge needs -o DIR and the directories of the runs", errUsage)
		}
		var runs []matrix.Results
		// directories without results, for example of an interrupted run
		var without error
		for _, dir := range operands {
			r, err := load(dir)
			if errors.Is(err, errNoResults) {
				without = errors.Join(without, err)
				continue
			}
			if err != nil {
				return unusable, err
			}
			for _, g := range r.Guests {
				sub := filepath.Dir(filepath.FromSlash(g.Log))
				if !filepath.IsLocal(sub) {
					return unusable, fmt.Errorf("%s: the log %q of %s is outside this directory", dir, g.Log, g.Guest)
				}
				to := filepath.Join(*out, sub)
				if err := os.RemoveAll(to); err != nil {
					return unusable, err
				}
				if err := os.CopyFS(to, os.DirFS(filepath.Join(dir, sub))); err != nil {
					return unusable, fmt.Errorf("copy the files of %s: %w", g.Guest, err)
				}
			}
			runs = append(runs, r)
		}
		if len(runs) == 0 {
			return unusable, without
		}
		if err := os.MkdirAll(*out, 0o755); err != nil {
			return unusable, err
		}
		all := matrix.Merge(runs)
		if err := all.Write(*out); err != nil {
			return unusable, err
		}
		if err := printResults(stdout, all, *out); err != nil {
			return unusable, err
		}
		if without != nil {
			return unusable, without
		}
		if !all.Good() {
			return someFailed, nil
		}
		return allGood, nil
	}
}

// errNoResults is returned for a directory without results.
var errNoResults = errors.New("run 'make test-kernel'")

func load(dir string) (matrix.Results, error) {
	r, err := matrix.LoadResults(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("no results in %s: %w", dir, errNoResults)
	}
	return r, err
}
