//go:build !linux

package btfhub

import (
	"errors"
)

func kernelSpec(bool) (*Kernel, error) { return nil, errors.ErrUnsupported }
