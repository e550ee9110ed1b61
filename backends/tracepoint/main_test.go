package tracepoint

import (
	"testing"

	"github.com/quark-linux/quark/fidelity/conform"
)

func TestMain(m *testing.M) { conform.Main(m, nil) }
