package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGuestArgs(t *testing.T) {
	args, limit, err := guestArgs([]string{"-test.testlogfile=/x", "-test.paniconexit0", "-test.gocoverdir=/y", "-test.timeout=10m0s", "-test.run=A", "x"})
	if err != nil || limit != 10*time.Minute+graceTime || !slices.Equal(args, []string{"-test.paniconexit0", "-test.timeout=10m0s", "-test.run=A", "x"}) {
		t.Errorf("got arguments %q, limit %v, error %v", args, limit, err)
	}
	if _, _, err := guestArgs([]string{"-test.coverprofile=/x"}); err == nil || !strings.Contains(err.Error(), "copies no files") {
		t.Errorf("a profile: error %v", err)
	}
	env := guestEnv([]string{"HOME=/x", "QUARK_A=1", "QUARK_RESULTS=/x", "GODEBUG=x=1", "GOCOVERDIR=/x"})
	if !slices.Equal(env, []string{"QUARK_A=1", "GODEBUG=x=1"}) {
		t.Errorf("got environment %q", env)
	}
}

func TestExecRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"exec"}, "exec needs --kernel"},
		{[]string{"exec", "--kernel", "6.1-cloud"}, "exec needs --kernel"},
		{[]string{"exec", "--kernel", "none", "x.test"}, `no kernel "none"`},
		{[]string{"exec", "--images", "/nonexistent", "--arch", "amd64", "--kernel", "6.1-cloud", "x.test"}, "make kernel-images"},
	} {
		var out bytes.Buffer
		if status := dispatch(context.Background(), tt.args, &out, &out); status != unusable || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%q: status %d, want %q: %s", tt.args, status, tt.want, &out)
		}
	}
}

// TestGoTestExec runs go test -exec for a package whose tests pass, fail, skip, read testdata, and
// bring the guest down.
func TestGoTestExec(t *testing.T) {
	if testing.Short() {
		t.Skip("boots guests")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"initramfs.gz", "kernel_images/" + runtime.GOARCH + "/6.1-cloud"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Skipf("%v: make initramfs.gz kernel-images makes it", err)
		}
	}
	program := filepath.Join(t.TempDir(), "quark-matrix")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A kernel with its types in a file.
	images := t.TempDir()
	if err := os.Mkdir(filepath.Join(images, "local"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(root, "kernel_images", runtime.GOARCH, "6.1-cloud"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"k": string(image), "k.json": `{}`, "k.btf": ""} {
		if err := os.WriteFile(filepath.Join(images, "local", name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		run  string
		want []string
		bad  bool
	}{
		{"Test(Types|Good)", []string{"--- PASS: TestTypes", "--- PASS: TestGoodData", "a line", "without an end--- PASS: TestGoodOutput", "--- SKIP: TestGoodSkip", "\nok "}, false},
		{"Test(Fails|Panics)", []string{"guest_test.go", "as it should", "--- FAIL: TestFails", "panic: as it should", "goroutine ", "\nFAIL"}, true},
		{"TestCrashes", []string{"Kernel panic - not syncing: sysrq triggered crash", "\nFAIL"}, true},
	} {
		t.Run(tt.run, func(t *testing.T) {
			kernel := "--kernel 6.1-cloud"
			if !tt.bad {
				kernel = "--kernel local/k --images " + images
			}
			cmd := exec.Command("go", "test", "-count=1", "-v", "-run", "^"+tt.run, "-exec", program+" exec "+kernel+" -e QUARK_GUEST_TEST=1", "./testdata/guest")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			out, err := cmd.CombinedOutput()
			if (err != nil) != tt.bad {
				t.Errorf("got error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
