package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quark-test": main})
}

// The scripts need no root.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE") != ""})
}

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, test := range tests {
		if seen[test.Name] || !strings.HasPrefix(test.Name, "t_") || test.Doc == "" || test.Run == nil {
			t.Errorf("bad row or the second of its name: %q", test.Name)
		}
		seen[test.Name] = true
	}
}
