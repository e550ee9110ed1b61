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
	"strings"
	"time"
)

// errNoImage says that a package holds no kernel image.
var errNoImage = errors.New("no kernel image in it")

// isImage reports whether a package's file is the kernel image: boot/vmlinuz-RELEASE, or from 7.2
// on usr/lib/modules/RELEASE/vmlinuz, vmlinuz.unsigned in an unsigned package.
func isImage(name string) bool {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if ok, _ := path.Match("boot/vmlinuz-*", name); ok {
		return true
	}
	if ok, _ := path.Match("usr/lib/modules/*/vmlinuz", name); ok {
		return true
	}
	ok, _ := path.Match("usr/lib/modules/*/vmlinuz.unsigned", name)
	return ok
}

// isSource reports whether a package's file is the archive of a kernel's source.
func isSource(name string) bool {
	ok, _ := path.Match("/usr/src/linux-source-*.tar.xz", path.Clean("/"+name))
	return ok
}

// extractImage writes the kernel image in the .deb to w.
func extractImage(ctx context.Context, deb string, w io.Writer) error {
	return extractFile(ctx, deb, isImage, w)
}

// extractFile writes the first file in the .deb whose name is wanted to w.
func extractFile(ctx context.Context, deb string, wanted func(name string) bool, w io.Writer) error {
	// dpkg-deb knows every compression that a package may have.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	// Its children hold standard error open, too: Wait does not wait for one that is stuck.
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
	found, err := copyFirst(stdout, wanted, w)
	if found || err != nil {
		// The rest of the package is not read, and dpkg-deb's error for that is ignored.
		// The pipe is closed before Wait: the decompressor is another process, which ends
		// only when it cannot write.
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

// copyFirst copies the first wanted file of a tar archive to w. found is false when the archive
// ends without one, even too early: the program that writes the archive reports why.
func copyFirst(r io.Reader, wanted func(name string) bool, w io.Writer) (found bool, err error) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if h.Typeflag != tar.TypeReg || !wanted(h.Name) {
			continue
		}
		if _, err := io.Copy(w, tr); err != nil {
			return false, err
		}
		return true, nil
	}
}
