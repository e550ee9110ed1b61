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

// Find returns the content of the first regular file in a .deb whose base name matches pattern, or
// ErrNoFile.
func Find(ctx context.Context, deb, pattern string) (content []byte, err error) {
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
		return nil, fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
	}
	content, err = find(tar.NewReader(pipe), pattern)
	pipe.Close() // ends dpkg-deb early: the rest is not needed
	debErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
		return content, nil
	case debErr != nil && complaints.Len() > 0:
		return nil, fmt.Errorf("unpack %s: dpkg-deb: %s", filepath.Base(deb), errorMessage(complaints.String(), debErr))
	}
	return nil, fmt.Errorf("unpack %s: %w: %s", filepath.Base(deb), err, pattern)
}

func find(files *tar.Reader, pattern string) ([]byte, error) {
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, ErrNoFile
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
