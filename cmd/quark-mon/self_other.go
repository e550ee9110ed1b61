//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func dropPrivileges() error {
	return fmt.Errorf("%w: -D needs Linux: omit it", errors.ErrUnsupported)
}

func ownPeakRSS() uint64 { return 0 }
