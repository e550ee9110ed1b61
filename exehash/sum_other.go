//go:build !linux

package exehash

import (
	"errors"

	"github.com/quark-linux/quark"
)

// Sum needs Linux.
func (*Cache) Sum(*quark.Process) (Sum, error) { return Sum{}, errors.ErrUnsupported }
