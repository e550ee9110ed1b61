package exitsnoop

import (
	"errors"
	"testing"
)

// No two errors match each other for errors.Is.
func TestErrorsDiffer(t *testing.T) {
	all := []error{ErrNotRunning, ErrFull, ErrAlreadyTraced, ErrDuplicateID, ErrNotTraced, ErrNotEnded, ErrNoProcess,
		ErrBadPid, ErrNamespace, ErrLost, ErrLocked, ErrNotDirectory, ErrNoBPFFS, ErrReadOnly, ErrForeign, ErrShape,
		ErrNewerVersion, ErrUnsupported, ErrPermission}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(withTraceID(1, a), b) != (i == j) {
				t.Errorf("%v is %v: %v", a, b, i != j)
			}
		}
	}
}
