//go:build !linux

package selfcost

import (
	"errors"
	"time"
)

// Meter is not implemented on this system.
type Meter struct{}

// Open returns [errors.ErrUnsupported].
func Open() (*Meter, error) { return nil, errors.ErrUnsupported }

// CPU returns 0.
func (m *Meter) CPU() time.Duration { return 0 }

// Resident returns 0.
func (m *Meter) Resident() uint64 { return 0 }

// Close returns nil.
func (m *Meter) Close() error { return nil }
