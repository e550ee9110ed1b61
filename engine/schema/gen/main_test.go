package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The generated files are up to date.
func TestGenerated(t *testing.T) {
	root := "../../.."
	for name, want := range files(root) {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is outdated: run go generate ./engine/schema (error %v)", name, err)
		}
	}
}
