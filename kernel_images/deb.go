package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"time"
)

// errNoImage says that a package holds no kernel image.
var errNoImage = errors.New("no kernel image in it")

// Patterns of files in packages: the kernel image, whose place is the second one from 7.2 on and
// the third one in unsigned packages, and the archive of a kernel's source.
var (
	imageFiles  = []string{"/boot/vmlinuz-*", "/usr/lib/modules/*/vmlinuz", "/usr/lib/modules/*/vmlinuz.unsigned"}
	sourceFiles = []string{"/usr/src/linux-source-*.tar.xz"}
)

// extractImage writes the kernel image in a .deb to w.
func extractImage(ctx context.Context, deb string, w io.Writer) error {
	return extractFile(ctx, deb, imageFiles, w)
}

// extractFile writes the first file in a .deb that matches a pattern to w.
func extractFile(ctx context.Context, deb string, patterns []string, w io.Writer) error {
	// dpkg-deb knows every compression that a package may have.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	// A child of dpkg-deb that hangs holds standard error open; Wait gives up after this time.
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpack %s: %w", path.Base(deb), err)
	}
	found, err := copyFirst(stdout, patterns, w)
	if found || err != nil {
		// The rest of the package stays unread; dpkg-deb's error about that is ignored. The
		// pipe is closed before Wait: the decompressor, another process, ends when it
		// cannot write any more.
		stdout.Close()
		cmd.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", path.Base(deb), err)
		}
		return nil
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("unpack %s: dpkg-deb: %s", path.Base(deb), complaint(stderr.String(), err))
	}
	return fmt.Errorf("unpack %s: %w", path.Base(deb), errNoImage)
}

// copyFirst copies the first regular file of a tar archive that matches a pattern to w. found is
// false when the archive ends without one. A truncated archive is no error here: the program that
// writes the archive reports why.
func copyFirst(r io.Reader, patterns []string, w io.Writer) (found bool, err error) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		wanted := slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(p, path.Clean("/"+h.Name))
			return ok
		})
		if h.Typeflag == tar.TypeReg && wanted {
			_, err := io.Copy(w, tr)
			return err == nil, err
		}
	}
}
