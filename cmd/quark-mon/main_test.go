package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
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
			slow := filepath.Join(env.WorkDir, "slow")
			env.Setenv("SLOW", slow)
			if err := recordSlow(slow); err != nil {
				return err
			}
			whole, err := os.ReadFile(filepath.Join(traces, "ebpf-6.18.trace"))
			if err != nil {
				return err
			}
			return os.WriteFile(torn, whole[:len(whole)-20], 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// lasts DURATION COMMAND...: the command takes at least so long.
			"lasts": func(ts *testscript.TestScript, _ bool, args []string) {
				least, err := time.ParseDuration(args[0])
				ts.Check(err)
				begin := time.Now()
				ts.Check(ts.Exec(args[1], args[2:]...))
				if d := time.Since(begin); d < least {
					ts.Fatalf("it lasted %v, less than %v", d, least)
				}
			},
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}

// A parent that is not known is not 0.
func TestWanted(t *testing.T) {
	p := new(quark.Process)
	o := &options{ppid: 0}
	if o.wanted(&quark.Event{Process: p}) {
		t.Error("a process whose parent is not known is of parent 0")
	}
	if p.Known = quark.SetOf(quark.FieldPPID); !o.wanted(&quark.Event{Process: p}) {
		t.Error("a process of parent 0 is left out")
	}
}

// recordSlow records a process that lives 300 ms.
func recordSlow(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := trace.NewWriter(f)
	if err != nil {
		return err
	}
	m := enginetest.NewMachine()
	p := m.Running("/bin/sh").Fork()
	m.Sleep(300 * time.Millisecond)
	p.Exit(0)
	q, err := quark.New(m, quark.Options{Record: w})
	if err != nil {
		return err
	}
	defer q.Close()
	for _, err := range q.Events(context.Background()) {
		if err != nil {
			return err
		}
	}
	return w.Close()
}
