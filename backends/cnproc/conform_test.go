package cnproc_test

import (
	"os"
	"testing"

	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

func open(t testing.TB, o cnproc.Options) engine.Source {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the proc connector needs CAP_NET_ADMIN")
	}
	s, err := cnproc.Open(source.Options{}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConform(t *testing.T) {
	conform.Test(t, func(t testing.TB) engine.Source { return open(t, cnproc.Options{}) })
}
