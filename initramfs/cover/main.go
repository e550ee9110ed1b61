//go:build linux

// Command cover runs a command that was built with coverage in a guest, and writes the coverage to
// /run/profile.gz, for the host to keep: a serial line is slow. Each process of the tests writes
// its own file; covdata, which is in the same image, merges them into one profile.
//
//	cover quark-test -b -k -c
package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/quark-linux/quark/internal/harness/record"
)

const (
	written = "/run/cover"
	profile = "/run/profile"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cover:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// run runs the command and returns its status as a shell does.
func run(command []string) (status int, err error) {
	if len(command) == 0 {
		return 2, errors.New("missing command")
	}
	// Tests write there even after they dropped their privileges.
	if err := errors.Join(os.Mkdir(written, 0o755), os.Chmod(written, 0o1777)); err != nil {
		return 2, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+written)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 127, err
	}
	status = record.ShellStatus(cmd.ProcessState)
	out, err := exec.Command("covdata", "textfmt", "-i="+written, "-o="+profile).CombinedOutput()
	if err != nil {
		return status, fmt.Errorf("merge coverage: %w: %s", err, out)
	}
	return status, pack()
}

// pack compresses the profile.
func pack() error {
	content, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	f, err := os.Create(profile + ".gz")
	if err != nil {
		return err
	}
	zw := gzip.NewWriter(f)
	_, err = zw.Write(content)
	return errors.Join(err, zw.Close(), f.Close())
}
