//go:build !linux

package quark

import (
	"errors"
	"fmt"
)

func (m *mounts) ended() map[uint32]bool { return nil }

// Read returns [errors.ErrUnsupported]: this system has no /proc.
func (f *Files) Read(*Process) (File, error) {
	return File{}, fmt.Errorf("read executable: %w", errors.ErrUnsupported)
}
