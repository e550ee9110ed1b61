package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/harness/testrun"
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

// Every scenario is performed by a test.
func TestScenariosHaveTests(t *testing.T) {
	for _, s := range scenario.All() {
		if !slices.ContainsFunc(tests, func(x testrun.Test) bool { return x.Name == s.Test }) {
			t.Errorf("scenario %s is of test %q, which is not there", s.Name, s.Test)
		}
	}
}
