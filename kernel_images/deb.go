package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errNoImage says that a package holds no kernel image.
var errNoImage = errors.New("no kernel image in it")

// Patterns of files in packages: the kernel image, which is /boot/vmlinuz-RELEASE, from 7.2 on
// /usr/lib/modules/RELEASE/vmlinuz and in unsigned packages vmlinuz.unsigned beside that; and the
// archive of a kernel's source.
const (
	imageFile  = "vmlinuz*"
	sourceFile = "linux-source-*.tar.xz"
)

// unpack unpacks the first file in a .deb whose name matches a pattern into the directory of the
// .deb, and returns its path.
func unpack(ctx context.Context, deb, pattern string) (path string, err error) {
	dir := filepath.Join(filepath.Dir(deb), "unpacked")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	// dpkg-deb knows every compression that a package may have. It fails when tar, which reads
	// no further than that file, closes the pipe: what counts is whether the file is there.
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	to := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "--no-same-owner", "--occurrence=1", "--wildcards", "--no-anchored", pattern)
	var complaints, tarComplaints strings.Builder
	from.Stderr, to.Stderr = &complaints, &tarComplaints
	// A child of dpkg-deb that hangs holds standard error open; Wait gives up after this time.
	from.WaitDelay = 5 * time.Second
	pipe, err := from.StdoutPipe()
	if err != nil {
		return "", err
	}
	to.Stdin = pipe
	if err = from.Start(); err != nil {
		return "", fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	tarErr := to.Run()
	pipe.Close()
	debErr := from.Wait()
	walkErr := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			path = name
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case tarErr == nil && walkErr == nil && path != "":
		return path, nil
	case debErr != nil && complaints.Len() > 0:
		return "", fmt.Errorf("unpack %s: dpkg-deb: %s", filepath.Base(deb), complaint(complaints.String(), debErr))
	case tarErr != nil && !strings.Contains(tarComplaints.String(), "Not found in archive"):
		return "", fmt.Errorf("unpack %s: tar: %s", filepath.Base(deb), complaint(tarComplaints.String(), tarErr))
	}
	return "", errors.Join(walkErr, fmt.Errorf("unpack %s: %w", filepath.Base(deb), errNoImage))
}
