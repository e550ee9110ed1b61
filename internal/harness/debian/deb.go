package debian

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

// ErrNoFile means that a package contains no file that matches the pattern.
var ErrNoFile = errors.New("no such file in the package")

// Files calls each with the header and content of each file in a .deb, until each returns true or
// an error. It returns this error.
func Files(ctx context.Context, deb string, each func(h *tar.Header, content io.Reader) (done bool, err error)) error {
	// dpkg-deb supports every compression of packages.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	// If a child of dpkg-deb hangs and holds standard error open, Wait returns after this time.
	cmd.WaitDelay = 5 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	done, err := read(tar.NewReader(pipe), each)
	pipe.Close() // ends dpkg-deb early: the rest is not needed
	debErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case done && err == nil:
		return nil
	case debErr != nil && complaints.Len() > 0:
		return fmt.Errorf("unpack %s: dpkg-deb: %s", filepath.Base(deb), errorMessage(complaints.String(), debErr))
	case err != nil:
		return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	return nil
}

func read(files *tar.Reader, each func(*tar.Header, io.Reader) (bool, error)) (done bool, err error) {
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if done, err := each(h, files); done || err != nil {
			return done, err
		}
	}
}

// Find returns the content of the first regular file in a .deb whose base name matches pattern, or
// ErrNoFile.
func Find(ctx context.Context, deb, pattern string) (content []byte, err error) {
	found := false
	err = Files(ctx, deb, func(h *tar.Header, r io.Reader) (bool, error) {
		ok, err := path.Match(pattern, path.Base(h.Name))
		if err != nil || !ok || h.Typeflag != tar.TypeReg {
			return false, err
		}
		found = true
		content, err = io.ReadAll(r)
		return true, err
	})
	if err == nil && !found {
		err = fmt.Errorf("unpack %s: %w: %s", filepath.Base(deb), ErrNoFile, pattern)
	}
	return content, err
}
