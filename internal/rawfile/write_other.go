//go:build !linux

package rawfile

import "os"

// File is a regular file.
type File struct{ *os.File }
