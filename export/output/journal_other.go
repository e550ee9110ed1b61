//go:build !linux

package output

import (
	"errors"
	"fmt"
)

func openJournal(string) (sink, error) {
	return nil, fmt.Errorf("journald: %w", errors.ErrUnsupported)
}
