package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/internal/harness/matrix"
	"github.com/quark-linux/quark/internal/wholefile"
)

// hostRun is the name of the host among the runs.
const hostRun = "host"

// coverage sums up what the tests covered.
func coverage(ctx context.Context, args []string, stdout io.Writer) (int, error) {
	f := pflag.NewFlagSet("coverage", pflag.ContinueOnError)
	dir := f.StringP("output", "o", "build/matrix", "directory of the results of the guests")
	host := f.StringArray("host", nil, "GOCOVERDIR of tests on this host; may be repeated")
	profile := f.String("profile", "", "write all together to this file, for go tool cover")
	if err := parse(f, args, stdout); err != nil {
		return unusable, err
	}
	r, err := load(*dir)
	if err != nil {
		return unusable, err
	}
	temp, err := os.MkdirTemp("", "quark-coverage-")
	if err != nil {
		return unusable, err
	}
	defer os.RemoveAll(temp)
	var c matrix.Coverage
	for _, d := range *host {
		if err := addCovered(ctx, &c, hostRun, d, temp); err != nil {
			return unusable, err
		}
	}
	for i, g := range r.Guests {
		packed := filepath.Join(*dir, filepath.Dir(filepath.FromSlash(g.Log)), matrix.FilesDir, "cover")
		into := filepath.Join(temp, fmt.Sprint(i))
		if err := unpack(into, packed); err != nil {
			return unusable, fmt.Errorf("coverage of %s: %w ('make coverage' runs guests that hand it out)", g.Guest, err)
		}
		if err := addCovered(ctx, &c, g.Guest, into, temp); err != nil {
			return unusable, err
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
	return allGood, wholefile.Create(*profile, c.WriteProfile)
}

// addCovered adds the files in a GOCOVERDIR.
func addCovered(ctx context.Context, c *matrix.Coverage, run, dir, temp string) error {
	text := filepath.Join(temp, "profile")
	cmd := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("read what %s covered in %s: %w: %s", run, dir, err, strings.TrimSpace(string(out)))
	}
	f, err := os.Open(text)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.AddProfile(run, f)
}

// unpack gunzips the files of a directory into another.
func unpack(to, from string) error {
	paths, err := filepath.Glob(filepath.Join(from, "*.gz"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no files in %s", from)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, path := range paths {
		packed, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b []byte
		zr, err := gzip.NewReader(bytes.NewReader(packed))
		if err == nil {
			b, err = io.ReadAll(zr)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", path, err)
		}
		if err := os.WriteFile(filepath.Join(to, strings.TrimSuffix(filepath.Base(path), ".gz")), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
