//go:build linux && (amd64 || arm64)

package quark_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
)

// inNamespace names the test that this binary runs in a namespace of its own.
const inNamespace = "QUARK_TEST_IN_NAMESPACE"

// rerun runs a test of this binary again in new namespaces. It returns the text after "result: ".
func rerun(t *testing.T, attr *syscall.SysProcAttr) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make namespaces")
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), inNamespace+"="+t.Name())
	c.SysProcAttr = attr
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "failed to create new OS thread") {
		// Before Linux 6.3 an exec does not enter the time namespace, and threads cannot be
		// made.
		return ""
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, result, ok := strings.Cut(line, "result: "); ok {
			return strings.TrimSpace(result)
		}
	}
	t.Fatalf("no result: %s", out)
	return ""
}

// In a pid or time namespace the numbers in /proc differ from the numbers in the kernel's events.
func TestOpenRefusesNamespaces(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		_, err := quark.Open(quark.Options{})
		fmt.Printf("result: %v %v\n", errors.Is(err, errors.ErrUnsupported), err)
		return
	}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"pid": {Cloneflags: unix.CLONE_NEWPID},
		// Since Linux 6.3 the following exec enters this namespace.
		"time": {Unshareflags: unix.CLONE_NEWTIME},
	} {
		got := rerun(t, attr)
		if name == "time" && !strings.Contains(got, "namespace") {
			t.Logf("the process is not in a time namespace: %s", got)
			continue
		}
		if !strings.HasPrefix(got, "true") || !strings.Contains(got, "in its own "+name+" namespace") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// The /proc of another pid namespace does not have this process.
func TestOpenRefusesForeignProc(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		if got := rerun(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}); !strings.HasPrefix(got, "true") || !strings.Contains(got, "/proc is mounted for another pid namespace") {
			t.Errorf("got %q", got)
		}
		return
	}
	c := exec.Command("/bin/sh", "-c", "mount -t proc proc /proc && echo mounted && read x")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	input, _ := c.StdinPipe()
	defer input.Close()
	output, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = output.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = quark.Open(quark.Options{})
	fmt.Printf("result: %v %v\n", errors.Is(err, errors.ErrUnsupported), err)
}

// In a cgroup namespace the paths in /proc begin elsewhere, so they are not used.
func TestCgroupNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		q, err := quark.Open(quark.Options{Backends: quark.CNProc})
		if err != nil {
			fmt.Printf("result: skip %v\n", err)
			return
		}
		defer q.Close()
		known := 0
		for p := range q.Processes() {
			if p.Known.Has(quark.FieldCgroup) {
				known++
			}
		}
		fmt.Printf("result: %d %v\n", known, q.Capabilities().Fields[quark.FieldCgroup].Origin == quark.OriginNone)
		return
	}
	got := rerun(t, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWCGROUP})
	if strings.HasPrefix(got, "skip") {
		t.Skip(got)
	}
	if got != "0 true" {
		t.Errorf("got processes with a cgroup, or the table lacks the field: %s", got)
	}
}
