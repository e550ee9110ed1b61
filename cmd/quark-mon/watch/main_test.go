package watch

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
)

func TestMain(m *testing.M) {
	// The benchmark runs this binary as quark-mon.
	if os.Getenv("QUARK_MON_RUN") != "" {
		Main()
		os.Exit(0)
	}
	testscript.Main(m, map[string]func(){"quark-mon": func() { Main() }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			traces, err := filepath.Abs("../../../engine/enginetest/testdata")
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

// The manual and the short help have each option, and the manual no other.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/quark-mon.8")
	if err != nil {
		t.Skip(err) // in a guest
	}
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\.It Fl (?:(\w) , )?-([a-z-]+)`).FindAllStringSubmatch(string(manual), -1) {
		documented[m[1]+" "+m[2]] = true
	}
	delete(documented, "h help") // of every command
	delete(documented, "V version")
	shown := regexp.MustCompile(`\[-(\w+)\]|-(\w) [A-Z]|--([a-z-]+)[ \]]`).FindAllStringSubmatch(synopsis, -1)
	newFlags(new(options)).VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "version" {
			return
		}
		if name := f.Shorthand + " " + f.Name; !documented[name] {
			t.Errorf("quark-mon(8) has no option %s", name)
		} else {
			delete(documented, name)
		}
		if !slices.ContainsFunc(shown, func(m []string) bool {
			return f.Shorthand != "" && strings.Contains(m[1]+m[2], f.Shorthand) || m[3] == f.Name
		}) {
			t.Errorf("the synopsis has no --%s", f.Name)
		}
	})
	for name := range documented {
		t.Errorf("quark-mon has no option %s", name)
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
