package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/fidelity/fuzz"
)

func TestMain(m *testing.M) {
	fuzz.Main()
	testscript.Main(m, map[string]func(){"quark-fidelity": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}
