package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
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

// unpack returns the content of the first file in a .deb whose name matches a pattern.
func unpack(ctx context.Context, deb, pattern string) ([]byte, error) {
	// dpkg-deb knows every compression that a package may have.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	// A child of dpkg-deb that hangs holds standard error open; Wait gives up after this time.
	cmd.WaitDelay = 5 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	content, err := find(tar.NewReader(pipe), pattern)
	pipe.Close() // ends dpkg-deb: what it has not written is not wanted
	debErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return content, nil
	case debErr != nil && complaints.Len() > 0:
		return nil, fmt.Errorf("unpack %s: dpkg-deb: %s", filepath.Base(deb), complaint(complaints.String(), debErr))
	}
	return nil, fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
}

func find(files *tar.Reader, pattern string) ([]byte, error) {
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, errNoImage
		}
		if err != nil {
			return nil, err
		}
		ok, err := path.Match(pattern, path.Base(h.Name))
		if err != nil {
			return nil, err
		}
		if ok && h.Typeflag == tar.TypeReg {
			return io.ReadAll(files)
		}
	}
}
