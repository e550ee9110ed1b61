// Package atomicfile writes files under a temporary name and renames them when they are complete: a
// reader sees the old or the new file, never a part.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// TempPrefix starts the names of temporary files. A killed process leaves its file behind.
const TempPrefix = ".tmp-"

// Create writes a file with the output of write. On an error the old file is unchanged and the
// temporary one removed.
func Create(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = write(f)
	if err == nil {
		err = f.Sync() // some file systems report a full disk only now
	}
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Write writes a file with the given content, like Create.
func Write(path string, content []byte) error {
	return Create(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
