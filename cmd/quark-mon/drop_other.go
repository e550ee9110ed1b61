//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func dropPrivileges() error {
	return fmt.Errorf("%w: -D is for Linux: leave it out", errors.ErrUnsupported)
}
