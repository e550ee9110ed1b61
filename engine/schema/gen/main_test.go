package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The generated files are those of the table.
func TestGenerated(t *testing.T) {
	root := "../../.."
	for name, want := range files(root) {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not of the table: run go generate ./engine/schema (%v)", name, err)
		}
	}
}
