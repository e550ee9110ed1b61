package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/internal/command"
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
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}

// The manual page lists each option of each verb, and no others.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/quark-mon.8")
	if err != nil {
		t.Skip(err) // in a guest
	}
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\.It Fl (?:(\w) , )?-([a-z-]+)`).FindAllStringSubmatch(string(manual), -1) {
		documented[m[1]+" "+m[2]] = true
	}
	shown := map[string]bool{"h help": true, "V version": true}
	for _, verb := range []string{"", "tree", "top", "replay", "replay tree"} {
		var help bytes.Buffer
		if err := command.Run(t.Context(), newCommand(&help, nil), append(strings.Fields(verb), "--help"), &help); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([a-z-]+)`).FindAllStringSubmatch(help.String(), -1) {
			shown[m[1]+" "+m[2]] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(documented))); diff != "" {
		t.Errorf("quark-mon -h and quark-mon(8) differ in options (-help +manual):\n%s", diff)
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

// The pictures in the documents have the current columns, and no loss.
func TestPictures(t *testing.T) {
	for name, columns := range map[string]string{"quark-mon": line.Default, "quark-mon-tree": treeColumns} {
		picture, err := os.ReadFile("../../docs/" + name + ".svg")
		if err != nil {
			t.Skip(err) // in a guest
		}
		text := regexp.MustCompile("<[^>]*>").ReplaceAllString(string(picture), "")
		heading := strings.Fields(strings.ToUpper(strings.ReplaceAll(columns, ",", " ")))
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(heading, " ")) || strings.Contains(text, "GAP") {
			t.Errorf("%s is outdated: run docs/terminal.sh:\n%s", name, text)
		}
	}
}
