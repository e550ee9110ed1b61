package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// The benchmark runs this binary as quark-mon.
	if os.Getenv("QUARK_MON_RUN") != "" {
		main()
		os.Exit(0)
	}
	testscript.Main(m, map[string]func(){"quark-mon": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}
