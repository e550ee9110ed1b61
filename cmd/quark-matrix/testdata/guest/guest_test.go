// Package guest has tests that end in every way, for the test of quark-matrix exec.
package guest

import (
	"fmt"
	"os"
	"testing"
)

func TestGoodData(t *testing.T) {
	b, err := os.ReadFile("testdata/file")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	if os.Getenv("QUARK_GUEST_TEST") != "1" || os.Getpid() == 1 {
		t.Error("the test does not run in a guest")
	}
}

func TestGoodOutput(*testing.T) { fmt.Print("without an end") }

func TestGoodSkip(t *testing.T) { t.Skip("as it should") }

func TestTypes(t *testing.T) {
	if path := os.Getenv("QUARK_BTF_PATH"); path != "/k.btf" { // which the image may have
		t.Errorf("got types in %q", path)
	}
}

func TestFails(t *testing.T) { t.Error("as it should") }

func TestPanics(*testing.T) { panic("as it should") }

func TestCrashes(t *testing.T) {
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0); err != nil {
		t.Fatal(err)
	}
	select {}
}
