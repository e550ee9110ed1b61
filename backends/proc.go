//go:build linux && (amd64 || arm64)

package backends

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// proc adds Look to the reader's methods, and leaves to the source what it can do better.
type proc struct {
	*procfs.Reader
	source engine.Source
}

// OpenProc opens /proc, to be used beside a source, with what is asked for of the environment.
func OpenProc(src engine.Source, environ *source.Environ) (Proc, error) {
	variables, err := environ.Compile()
	if err != nil {
		return nil, err
	}
	r, err := procfs.Open()
	if err != nil {
		return nil, err
	}
	if variables != nil {
		r.ReadEnviron(variables.Set)
	}
	return proc{r, src}, nil
}

func (p proc) Scan(f func(*engine.RawEvent) error) error {
	type snapshotter interface {
		Snapshot(*procfs.Reader, func(*engine.RawEvent) error) error
	}
	if s, ok := p.source.(snapshotter); ok && s.Snapshot(p.Reader, f) == nil {
		return nil
	}
	return p.Reader.Scan(f)
}

func (p proc) Look(pid uint32) (start uint64, sight engine.Sight) {
	// kill(2) tells of every process, /proc may hide those of others.
	if err := unix.Kill(int(pid), 0); errors.Is(err, unix.ESRCH) {
		return 0, engine.SightGone
	}
	st, start, err := p.Status(pid)
	switch {
	case err != nil:
		return 0, engine.SightUnknown
	case st.Over():
		return 0, engine.SightGone
	}
	return start, engine.SightAlive
}
