package output

import (
	"context"
	"time"
)

// sendTimeout is how long a target may take for one entry.
const sendTimeout = 5 * time.Second

// within calls f, which writes to a target that may take nothing: it fails then after sendTimeout,
// or when ctx ends.
func within(ctx context.Context, target interface{ SetWriteDeadline(time.Time) error }, f func() error) error {
	if err := target.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = target.SetWriteDeadline(time.Now()) })()
	return f()
}
