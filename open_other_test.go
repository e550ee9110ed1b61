//go:build !linux || !(amd64 || arm64)

package quark_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
)

func TestOpenElsewhere(t *testing.T) {
	q, err := quark.Open(quark.Options{})
	if q != nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("got queue %v, error %v", q, err)
	}
}
