//go:build linux

// Command cover runs a command that was built with coverage in a guest, and sends the coverage
// files through the result port. Each process of the tests writes a file of its own; covdata, which
// is in the same image, merges them.
//
//	cover quark-test -b -k -c
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/quark-linux/quark/internal/harness/record"
)

const (
	written = "/run/cover"
	merged  = "/run/merged"
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
	if err := errors.Join(os.Mkdir(written, 0o755), os.Mkdir(merged, 0o755)); err != nil {
		return 2, err
	}
	// Tests write there after they dropped their privileges, too.
	if err := os.Chmod(written, 0o1777); err != nil {
		return 2, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+written)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		status = exit.ExitCode()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = 128 + int(ws.Signal())
		}
	case err != nil:
		return 127, err
	}
	out, err := exec.Command("covdata", "merge", "-pcombine", "-i="+written, "-o="+merged).CombinedOutput()
	if err != nil {
		return status, fmt.Errorf("merge what was covered: %w: %s", err, out)
	}
	return status, sendAll(os.Getenv("QUARK_RESULTS"))
}

// sendAll sends the merged files.
func sendAll(port string) error {
	w, err := record.OpenWriter(port)
	if err != nil {
		return err
	}
	defer w.Close()
	return filepath.WalkDir(merged, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		zw.Write(content) // to memory
		if err := zw.Close(); err != nil {
			return err
		}
		for _, b := range record.Blobs("cover/"+d.Name()+".gz", packed.Bytes()) {
			if err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
}
