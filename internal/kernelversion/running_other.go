//go:build !linux

package kernelversion

import "errors"

// Running returns an error that is [errors.ErrUnsupported].
func Running() (string, error) { return "", errors.ErrUnsupported }

// Hidden returns nil.
func Hidden() error { return nil }

// Realtime returns false.
func Realtime() bool { return false }
