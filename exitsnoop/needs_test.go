package exitsnoop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// silent is a link without info, as before Linux 5.8.
type silent struct{}

func (silent) Info() (*link.Info, error) { return nil, fmt.Errorf("link info: %w", unix.EINVAL) }

func TestCheckLinkInfo(t *testing.T) {
	if err := checkLinkInfo(silent{}); !errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), "it does not report the program of a link (Linux 5.8)") {
		t.Errorf("%v", err)
	}
}

func TestMissing(t *testing.T) {
	no := func() error { return fmt.Errorf("probe: %w", ebpf.ErrNotSupported) }
	err := missing([]need{{"a map", "5.5", no}, {"a link", "5.7", func() error { return nil }}, {"a helper", "5.8", no}})
	if !errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), ": it has no a map (Linux 5.5) and no a helper (Linux 5.8)") {
		t.Errorf("%v", err)
	}
	if err := missing([]need{{"a map", "5.5", func() error { return errors.New("broken") }}}); err != nil {
		t.Errorf("a feature with a failed probe is reported missing: %v", err)
	}
	needKernel(t)
	if err := missing(needs); err != nil { // on a kernel where the program runs
		t.Error(err)
	}
}
