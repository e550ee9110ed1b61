package selection

import "context"

// Await returns the results of f, or the error of ctx if ctx ends first.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var v T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = f()
	}()
	select {
	case <-done:
		return v, err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
