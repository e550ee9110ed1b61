package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quark-linux/quark/btfhub/ingest"
)

// writeMembers returns the members that compiled programs relocate against, and writes them to a
// file.
func writeMembers(path string, objects []string) ([]string, error) {
	var all []string
	for _, name := range objects {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		members, err := ingest.ProgramMembers(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, members...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all, os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644)
}
