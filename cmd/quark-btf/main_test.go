package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/btfhub"
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

// setUp provides scripts with two current kernels of the archive: OLD and NEW, in files old.btf and
// new.btf.
func setUp(env *testscript.Env) error {
	a, err := btfhub.Embedded()
	if err != nil {
		return err
	}
	for name, kernel := range map[string]string{"old": "5.10.*-cloud-amd64", "new": "6.12.*-rt-amd64"} {
		for _, e := range a.Kernels() {
			if ok, _ := path.Match(kernel, e.Release); !ok {
				continue
			}
			env.Setenv(strings.ToUpper(name), e.Release)
			if err := os.WriteFile(filepath.Join(env.WorkDir, name+".btf"), a.BTF(e), 0o644); err != nil {
				return err
			}
			if name == "old" {
				if err := os.WriteFile(filepath.Join(env.WorkDir, "vmlinuz"), image(a.BTF(e)), 0o644); err != nil {
					return err
				}
			}
			break
		}
	}
	return nil
}

// image returns a kernel image of RHEL 8 for arm64 with these types.
func image(types []byte) []byte {
	head := make([]byte, 64)
	copy(head[56:], "ARM\x64")
	return append(append(head, "Linux version 4.18.0-80.el8.aarch64 (a@b)\x00"...), types...)
}
