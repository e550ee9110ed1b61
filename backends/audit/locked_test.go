package audit

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/internal/auditrule"
)

// TestLocked locks the rules until the guest ends, so it has to be the last test.
func TestLocked(t *testing.T) {
	c := openControl(t)
	if err := c.Enable(auditrule.Locked); err != nil {
		t.Skip(err)
	}
	_, err := Open(source.Options{}, Options{Enable: true})
	if err == nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "locked until the next boot") {
		t.Errorf("%v", err)
	}
}
