//go:build !linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quark-linux/quark"
)

type live struct{}

func newLive(*monitor, *os.File, func()) (*live, error) { return nil, errors.ErrUnsupported }

func checkTerminal(io.Writer) error {
	return fmt.Errorf("%w: top is for Linux", errors.ErrUnsupported)
}

func (*live) count(*quark.Event) {}
func (*live) tick() error        { return nil }
func (*live) close()             {}
