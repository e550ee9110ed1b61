//go:build linux

// Command cover runs a command that was built with coverage in a guest, and sends what it covered
// through the result port: a profile, compressed, as a serial line is slow. Each process of the
// tests writes a file of its own; covdata, which is in the same image, makes one profile of them.
//
//	cover quark-test -b -k -c
package main

import (
	"bytes"
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
		return 2, errors.New("a command is wanted")
	}
	// Tests write there after they dropped their privileges, too.
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
		return status, fmt.Errorf("merge what was covered: %w: %s", err, out)
	}
	return status, send(os.Getenv("QUARK_RESULTS"))
}

// send sends the profile.
func send(port string) error {
	w, err := record.OpenWriter(port)
	if err != nil {
		return err
	}
	defer w.Close()
	content, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	zw.Write(content) // to memory
	if err := zw.Close(); err != nil {
		return err
	}
	for _, b := range record.Blobs("profile.gz", packed.Bytes()) {
		if err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
