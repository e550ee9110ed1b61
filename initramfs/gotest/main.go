//go:build linux

// Command gotest runs test binaries in a guest: see internal/harness/gotest.
package main

import (
	"os"

	"github.com/quark-linux/quark/internal/harness/gotest"
)

func main() { os.Exit(gotest.Main(os.Args[1:])) }
