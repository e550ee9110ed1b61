//go:build !linux

package btfhub

import (
	"errors"

	"github.com/cilium/ebpf/btf"
)

func kernelSpec(bool) (*btf.Spec, error) { return nil, errors.ErrUnsupported }
