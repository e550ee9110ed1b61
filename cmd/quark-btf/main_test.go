package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/distropkg/distropkgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quark-btf": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: setUp,
		Condition: func(cond string) (bool, error) {
			_, err := os.Stat(btfhub.KernelBTF)
			return cond == "btf" && err == nil, nil
		},
	})
}

// setUp gives scripts two kernels of the archive, whose releases move on with
// it: OLD and NEW, in files old.btf and new.btf.
func setUp(env *testscript.Env) error {
	a, err := btfhub.Embedded()
	if err != nil {
		return err
	}
	for name, kernel := range map[string]string{"old": "debian cloud 5.10", "new": "debian rt 6.12"} {
		for _, e := range a.Kernels() {
			if e.Arch != "amd64" || btfhub.ParseRelease(e.Release).String() != kernel {
				continue
			}
			env.Setenv(strings.ToUpper(name), e.Release)
			if err := os.WriteFile(filepath.Join(env.WorkDir, name+".btf"), a.BTF(e), 0o644); err != nil {
				return err
			}
			if name == "old" {
				writeRPM(env, a.BTF(e))
			}
			break
		}
	}
	return nil
}

// writeRPM makes kernel.rpm, whose kernel has the types.
func writeRPM(env *testscript.Env, types []byte) {
	image := make([]byte, 64)
	copy(image[56:], "ARM\x64")
	image = append(image, types...)
	distropkgtest.Package{Name: "kernel-core", Version: "4.18.0", Release: "80.el8", Arch: "aarch64", Packing: "xz", Files: []distropkgtest.File{
		{Name: "/lib/modules/4.18.0-80.el8.aarch64/vmlinuz", Body: image},
	}}.WriteRPM(env.T().(testing.TB), filepath.Join(env.WorkDir, "kernel.rpm"))
}

// TestSpeed holds the command to what is promised of it, with room for a busy
// machine.
func TestSpeed(t *testing.T) {
	if _, err := os.Stat(btfhub.KernelBTF); err != nil {
		t.Skip("this kernel has no BTF")
	}
	best := time.Hour
	for range 5 {
		start := time.Now()
		if err := run(nil, new(strings.Builder), new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("%v", best)
	if best > 100*time.Millisecond {
		t.Errorf("all targets take %v, at most 100 ms are promised", best)
	}
}
