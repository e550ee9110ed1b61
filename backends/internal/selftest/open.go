package selftest

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// Open returns the source that open opens with the options. It first tests types that may not be
// the running kernel's. The test uses a source that reports all forks, execs and exits, and closes
// it again. Open refuses such types if a read at a wrong address can harm the kernel.
func Open[S engine.Source](o source.Options, types *btfhub.Kernel, open func(source.Options) (S, error)) (S, error) {
	if types.Exact {
		return open(o)
	}
	m, err := thisMachine()
	if err == nil {
		err = m.admits()
	}
	if err != nil {
		return *new(S), fmt.Errorf("types from %s: %w", types.Origin, err)
	}
	all := o
	all.Kinds, all.Exits = 0, source.ExitsAll
	tested, err := open(all)
	if err != nil {
		return *new(S), fmt.Errorf("open with types from %s, which are not this kernel's: %w", types.Origin, err)
	}
	if err := errors.Join(Run(tested.Capabilities(), tested), tested.Close()); err != nil {
		return *new(S), fmt.Errorf("self-test of types from %s: %w", types.Origin, err)
	}
	return open(o)
}
