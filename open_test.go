package quark_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// onEach runs a test on every backend that works on this host. It skips the others with the reason.
func onEach(t *testing.T, test func(t *testing.T, opts quark.Options)) {
	for _, name := range backends.All.Names() {
		t.Run(name, func(t *testing.T) {
			set, err := backends.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			opts := quark.Options{Backends: set, Strict: true, HoldTime: 50 * time.Millisecond}
			if err := tryBackend(opts); err != nil {
				if os.Getuid() == 0 && set == quark.EBPF && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, os.ErrPermission) {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			test(t, opts)
		})
	}
}

// tried holds the results of tryBackend, because opening a queue takes a guest up to a second.
var tried = make(map[quark.BackendSet]error)

// tryBackend opens and closes a queue, once for each backend.
func tryBackend(opts quark.Options) error {
	err, done := tried[opts.Backends]
	if !done {
		var q *quark.Queue
		if q, err = quark.Open(opts); err == nil {
			err = q.Close()
		}
		tried[opts.Backends] = err
	}
	return err
}

func open(t *testing.T, opts quark.Options) *quark.Queue {
	t.Helper()
	q, err := quark.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// spawn runs a small program to its end and returns its pid. A guest has no true(1).
func spawn(t *testing.T) uint32 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "true")
	if err := tinyelf.Write(path, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return uint32(cmd.Process.Pid)
}
