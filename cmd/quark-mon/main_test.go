package main

import (
	"os"
	"path/filepath"
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
		Setup: func(env *testscript.Env) error {
			traces, err := filepath.Abs("../../engine/enginetest/testdata")
			if err != nil {
				return err
			}
			torn := filepath.Join(env.WorkDir, "torn")
			env.Setenv("TRACES", traces)
			env.Setenv("TORN", torn)
			whole, err := os.ReadFile(filepath.Join(traces, "ebpf-6.18.trace"))
			if err != nil {
				return err
			}
			return os.WriteFile(torn, whole[:len(whole)-20], 0o644)
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}
