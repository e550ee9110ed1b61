package fidelity

import (
	"errors"
	"io"
)

// Page writes reports as one self-contained HTML page.
func Page(out io.Writer, list []*Report) error { return errors.ErrUnsupported }
