//go:build linux

package features

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// TestTable checks the claims of the table on this kernel.
func TestTable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	release := runningRelease(t)
	seen := make(map[string]bool)
	for _, f := range table {
		name := f.Backend + ": " + f.Name
		if seen[name] {
			t.Errorf("the table has %s twice", name)
		}
		seen[name] = true
		found, err := f.check(release)
		t.Logf("%s: %s", name, found)
		if err != nil {
			t.Error(err)
		}
	}
}

// A wrong claim is an error, whether the kernel has the feature earlier or later than claimed.
func TestCheck(t *testing.T) {
	no := fmt.Errorf("missing: %w", errors.ErrUnsupported)
	for _, tt := range []struct {
		name  string
		since string
		probe error
		built string
		found string
		bad   bool
	}{
		{"present", "2.6", nil, "", "present", false},
		{"earlier than claimed", "999.1", nil, "", "present", true},
		{"a vendor's backport", "999.1", nil, "", "present before 999.1", false},
		{"later than claimed", "2.6", no, "", "absent", true},
		{"not yet", "999.1", no, "", "absent before 999.1", false},
		{"built without", "2.6", no, "no CONFIG_X", "no CONFIG_X", false},
		{"probe failed", "2.6", errors.New("broken"), "", "absent", true},
		{"probe failed, not claimed", "999.1", errors.New("broken"), "", "absent", true},
	} {
		f := feature{Backend: "b", Name: "n", Since: tt.since, Probe: func() error { return tt.probe }, Built: func() string { return tt.built }}
		release := "6.1.0-56-cloud-amd64"
		if strings.HasPrefix(tt.name, "a vendor") {
			release = "4.18.0-240.el8.x86_64"
		}
		found, err := f.check(release)
		if found != tt.found || (err != nil) != tt.bad {
			t.Errorf("%s: got %q, error %v; want %q, error: %v", tt.name, found, err, tt.found, tt.bad)
		}
	}
}

// Package ebpf's error for a missing feature does not wrap errors.ErrUnsupported, as check
// requires. Each probe that calls package ebpf converts the error.
func TestLibrarysErrors(t *testing.T) {
	missing := fmt.Errorf("map: %w", ebpf.ErrNotSupported)
	if errors.Is(missing, errors.ErrUnsupported) {
		t.Error("package ebpf's error is errors.ErrUnsupported now: remove the conversion in withoutLockLimit")
	}
	f := feature{Backend: "b", Name: "n", Since: "999.1", Probe: withoutLockLimit(func() error { return missing })}
	if found, err := f.check(runningRelease(t)); err != nil || found != "absent before 999.1" {
		t.Errorf("got result %q, error %v", found, err)
	}
	broken := errors.New("broken")
	if err := withoutLockLimit(func() error { return broken })(); !errors.Is(err, broken) || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("withoutLockLimit changed another error to %v", err)
	}
}

// ancient lists helpers that the table may leave out. They are older than raw tracepoints, or as
// old as a helper or map in the table.
var ancient = []asm.BuiltinFunc{
	asm.FnGetCurrentTask, asm.FnGetSmpProcessorId, asm.FnKtimeGetNs, asm.FnTailCall,
	asm.FnMapLookupElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem,
	asm.FnMapPushElem, asm.FnMapPopElem, // with the stack
	asm.FnRingbufSubmit, asm.FnRingbufDiscard, // with ringbuf_reserve
	asm.FnSeqWrite, // with iterators
}

// The table of features has every helper, map type and program type that the programs use.
func TestNeedsAreInTheTable(t *testing.T) {
	for _, object := range []string{"programs_bpfel.o", "programs_perf_bpfel.o"} {
		needsOf(t, "../ebpf/"+object)
	}
}

// castNumber stands for bpf_rdonly_cast in the compiled programs, see ../ebpf/programs/read.h.
const castNumber = 51799

func needsOf(t *testing.T, object string) {
	spec, err := ebpf.LoadCollectionSpec(object)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err) // the test runs in a guest without the objects
	}
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("_", "", " ", "").Replace
	listed := make(map[string]bool)
	for _, f := range table {
		if f.Backend == "ebpf" {
			listed[plain(strings.ToLower(f.Name))] = true
		}
	}
	for _, f := range ancient {
		listed["helper:"+strings.ToLower(strings.TrimPrefix(f.String(), "Fn"))] = true
	}
	for _, old := range []string{"map:array", "map:hash"} {
		listed[old] = true
	}
	for name, p := range spec.Programs {
		what := "programson" + strings.ToLower(p.Type.String()) + "s"
		if p.Type == ebpf.Tracing {
			what = "programsoniterators"
		}
		if !listed[what] {
			t.Errorf("%s: %s is not in the table", name, what)
		}
		for _, ins := range p.Instructions {
			if !ins.IsBuiltinCall() {
				continue
			}
			if ins.Constant == castNumber {
				if what := "function:bpfrdonlycast"; !listed[what] {
					t.Errorf("%s: %s is not in the table", name, what)
				}
				continue
			}
			if what := "helper:" + strings.ToLower(strings.TrimPrefix(asm.BuiltinFunc(ins.Constant).String(), "Fn")); !listed[what] {
				t.Errorf("%s: %s is not in the table", name, what)
			}
		}
	}
	for name, m := range spec.Maps {
		if what := "map:" + strings.ToLower(m.Type.String()); !listed[what] && what != "map:ringbuf" {
			t.Errorf("%s: %s is not in the table", name, what)
		}
	}
	if !listed["map:ringbuffer"] {
		t.Error("the ring buffer is not in the table")
	}
}

func runningRelease(t *testing.T) string {
	t.Helper()
	release, err := kernelversion.Running()
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// plainRelease matches the releases of Debian and of kernel.org.
var plainRelease = regexp.MustCompile(`^[0-9.]+(-rc[0-9]+)?$|-(amd64|arm64)$`)

// check compares the claim with the running kernel. It returns a description of the result, and an
// error if the kernel contradicts the claim. Vendors backport features, so an early feature is an
// error only on kernels of Debian and kernel.org.
func (f feature) check(release string) (found string, err error) {
	old, err := kernelversion.Older(release, f.Since)
	if err != nil {
		return "", err
	}
	err = f.Probe()
	switch {
	case err == nil && old && !plainRelease.MatchString(release):
		return "present before " + f.Since, nil
	case err == nil && old:
		return "present", fmt.Errorf("%s: %s is present on Linux %s, but claimed since %s", f.Backend, f.Name, release, f.Since)
	case err == nil:
		return "present", nil
	case errors.Is(err, errors.ErrUnsupported) && old:
		return "absent before " + f.Since, nil
	}
	if f.Built != nil {
		if why := f.Built(); why != "" {
			return why, nil
		}
	}
	return "absent", fmt.Errorf("%s: %s is absent, but claimed since Linux %s: %w", f.Backend, f.Name, f.Since, err)
}
