package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/vmlinuz/vmlinuztest"
)

// TestPahole compares every target with pahole (package dwarves), for this host's kernel and
// fetched ones.
func TestPahole(t *testing.T) {
	if _, err := exec.LookPath("pahole"); err != nil {
		t.Skip("no pahole: install the package dwarves")
	}
	kernels := rawKernels(t)
	if len(kernels) == 0 {
		t.Skip("no kernel's types: neither this host's nor kernel images ('go run ./kernel_images' fetches some)")
	}
	for name, raw := range kernels {
		t.Run(name, func(t *testing.T) {
			spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			p := readPahole(t, spec, raw)
			compared := 0
			for _, o := range btfhub.Resolve(spec).All() {
				if !o.Found() {
					for _, path := range o.Target.Alternatives {
						if at, ok := p.offset(path); ok {
							t.Errorf("%s: got error %v, want offset %d as in pahole", path, o.Err, at)
						}
					}
					continue
				}
				want, ok := p.offset(o.Path)
				got := int64(o.Bits / 8)
				if o.Enum {
					got = o.Value
				}
				if !ok {
					t.Errorf("%s: got offset %d, want none as in pahole", o.Path, got)
				} else if got != want {
					t.Errorf("%s: got offset %d, want %d as in pahole", o.Path, got, want)
				}
				compared++
			}
			t.Logf("%d targets compared", compared)
		})
	}
}

func rawKernels(t *testing.T) map[string][]byte {
	kernels := vmlinuztest.Types(t, "../../kernel_images")
	if raw, err := os.ReadFile(btfhub.KernelBTF); err == nil {
		kernels["host"] = raw
	}
	return kernels
}

// pahole holds the output of pahole: the members of each type, including those of anonymous structs
// and unions.
type pahole map[string]map[string]paholeMember

type paholeMember struct {
	at     int64
	typ    string                  // name of a struct by value, to be looked up
	inside map[string]paholeMember // members of a struct without a name
}

func readPahole(t *testing.T, spec *btf.Spec, raw []byte) pahole {
	t.Helper()
	file := filepath.Join(t.TempDir(), "btf")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, target := range btfhub.Targets() {
		for _, path := range target.Alternatives {
			name, _, _ := strings.Cut(path, ".")
			types = append(types, name)
		}
	}
	types = append(types, "path", "qstr", "ns_common", "atomic_t", "rt_mutex_base", "rt_mutex", "sched_entity", "task_io_accounting", "prev_cputime", "timespec64")
	slices.Sort(types)
	// It stops at the first missing type.
	types = slices.DeleteFunc(types, func(name string) bool {
		_, err := spec.AnyTypesByName(name)
		return err != nil
	})
	// It warns about kinds newer than itself and exits with 0 or 1.
	out, err := exec.Command("pahole", "-F", "btf", "-C", strings.Join(slices.Compact(types), ","), file).Output()
	if len(out) == 0 {
		t.Fatalf("pahole: %v", err)
	}
	return parsePahole(string(out))
}

var (
	paholeAttribute = regexp.MustCompile(` __attribute__\(\(.*?\)\)+`)

	paholeTop   = regexp.MustCompile(`^(?:typedef )?(?:struct|union|enum) ?(\w*) \{`)
	paholeEnd   = regexp.MustCompile(`^\}(?: (\w+))?`)
	paholeValue = regexp.MustCompile(`^\s+(\w+)\s*= (-?\d+),`)
	paholeOpen  = regexp.MustCompile(`^\s+(?:const |volatile )?(?:struct|union) \{`)
	paholeClose = regexp.MustCompile(`^\s+\}\s*(\w+)?[^;/]*;\s+/\*\s+(\d+)\s`)
	paholeLine  = regexp.MustCompile(`^\s+(.*?)(\w+)(?:\[[^\]]*\])*\s*;\s+/\*\s+(\d+)\s+\d+ \*/`)
	paholeType  = regexp.MustCompile(`^(?:const |volatile )*(?:struct |union )?(\w+)\s+$`)
)

func parsePahole(output string) pahole {
	p := make(pahole)
	name := ""
	var stack []map[string]paholeMember
	for line := range strings.Lines(output) {
		if m := paholeTop.FindStringSubmatch(line); m != nil {
			name, stack = m[1], []map[string]paholeMember{{}}
			continue
		}
		if len(stack) == 0 {
			continue
		}
		line = paholeAttribute.ReplaceAllString(line, "")
		top := stack[len(stack)-1]
		if m := paholeEnd.FindStringSubmatch(line); m != nil {
			if name == "" {
				name = m[1]
			}
			p[name], stack = stack[0], nil
		} else if m := paholeValue.FindStringSubmatch(line); m != nil {
			value, _ := strconv.ParseInt(m[2], 10, 64)
			top[m[1]] = paholeMember{at: value}
		} else if paholeOpen.MatchString(line) {
			stack = append(stack, map[string]paholeMember{})
		} else if m := paholeClose.FindStringSubmatch(line); m != nil && len(stack) > 1 {
			stack = stack[:len(stack)-1]
			outer := stack[len(stack)-1]
			if m[1] == "" {
				for k, v := range top {
					outer[k] = v
				}
				continue
			}
			at, _ := strconv.ParseInt(m[2], 10, 64)
			outer[m[1]] = paholeMember{at: at, inside: top}
		} else if m := paholeLine.FindStringSubmatch(line); m != nil {
			at, _ := strconv.ParseInt(m[3], 10, 64)
			member := paholeMember{at: at}
			if t := paholeType.FindStringSubmatch(m[1]); t != nil {
				member.typ = t[1]
			}
			top[m[2]] = member
		}
	}
	return p
}

// offset adds up the offsets of nested members, or returns the value of an enumerator.
func (p pahole) offset(path string) (at int64, ok bool) {
	names := strings.Split(path, ".")
	members := p[names[0]]
	for _, name := range names[1:] {
		m, ok := members[name]
		if !ok {
			return 0, false
		}
		if m.inside != nil {
			// Offsets of nested members are relative to the outermost type.
			at, members = m.at, m.inside
			continue
		}
		at, members = at+m.at, p[m.typ]
	}
	return at, true
}
