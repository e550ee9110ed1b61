package source

import (
	"fmt"
	"io"

	"github.com/quark-linux/quark/internal/btfhub"
)

// OpenTested returns the source that open makes with the options. Types that may not be the running
// kernel's have to pass a self-test first, of a source that reports all forks, execs and exits.
func OpenTested[S io.Closer](o Options, types *btfhub.Kernel, open func(Options) (S, error), test func(S) error) (s S, err error) {
	if !types.Exact {
		all := o
		all.Kinds, all.Exits = 0, ExitsAll
		if s, err = open(all); err == nil {
			if err = test(s); err != nil || o.Narrow() {
				s.Close()
			}
		}
		if err != nil {
			return *new(S), fmt.Errorf("self-test of types from %s: %w", types.Origin, err)
		}
		if !o.Narrow() {
			return s, nil
		}
	}
	return open(o)
}
