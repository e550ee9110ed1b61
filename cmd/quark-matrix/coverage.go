package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/matrix"
)

// hostRun is the name of the host among the runs.
const hostRun = "host"

// coverageVerb sums up what the tests covered.
func coverageVerb() (*cobra.Command, verb) {
	c := &cobra.Command{Use: "coverage [-o DIR] [--host DIR]... [--profile FILE]", Short: "sum up what tests covered, on the host and in guests with --wrap cover"}
	f := c.Flags()
	dir := f.StringP("output", "o", "build/matrix", "directory of the results of the guests")
	host := f.StringArray("host", nil, "GOCOVERDIR of tests on this host; may be repeated")
	profile := f.String("profile", "", "write all together to this file, for go tool cover")
	return c, func(ctx context.Context, _ []string, stdout io.Writer) (int, error) {
		r, err := load(*dir)
		if err != nil {
			return unusable, err
		}
		var c matrix.Coverage
		for _, d := range *host {
			if err := addDirectory(ctx, &c, d); err != nil {
				return unusable, err
			}
		}
		for _, g := range r.Guests {
			path := filepath.Join(*dir, filepath.Dir(filepath.FromSlash(g.Log)), matrix.FilesDir, "profile.gz")
			if err := addPacked(&c, g.Guest, path); err != nil {
				return unusable, fmt.Errorf("coverage of %s: %w ('make coverage' runs guests that hand it out)", g.Guest, err)
			}
		}
		if err := c.Table(stdout); err != nil {
			return unusable, err
		}
		fmt.Fprintln(stdout, "\nlines that only some of the guests reach:")
		if err := c.OnlySome(stdout, func(run string) bool { return run != hostRun }); err != nil {
			return unusable, err
		}
		if *profile == "" {
			return allGood, nil
		}
		return allGood, atomicfile.Create(*profile, c.WriteProfile)
	}
}

// addDirectory adds what is in a GOCOVERDIR of the host.
func addDirectory(ctx context.Context, c *matrix.Coverage, dir string) error {
	temp, err := os.MkdirTemp("", "quark-coverage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	profile := filepath.Join(temp, "profile")
	cmd := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("read what is covered in %s: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.AddProfile(hostRun, f)
}

// addPacked adds the compressed profile of a guest.
func addPacked(c *matrix.Coverage, run, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	return c.AddProfile(run, zr)
}
