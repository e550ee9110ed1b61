package exitsnoop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// silent is a link without info, as before Linux 5.8.
type silent struct{}

func (silent) Info() (*link.Info, error) { return nil, fmt.Errorf("link info: %w", unix.EINVAL) }

func TestCheckLinkInfo(t *testing.T) {
	if err := checkLinkInfo(silent{}); !errors.Is(err, ErrUnsupported) || !strings.HasSuffix(err.Error(), "the kernel does not report the program of a link (Linux 5.8)") {
		t.Errorf("%v", err)
	}
}

func TestMissingHelper(t *testing.T) {
	needKernel(t)
	if err := missingHelper(); err != nil { // on a kernel where the program runs
		t.Error(err)
	}
}
