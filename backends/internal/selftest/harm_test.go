package selftest

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine/enginetest"
)

// If reads at wrong addresses can harm the kernel, Open uses only exact types, never types that may
// be wrong.
func TestHarm(t *testing.T) {
	defer func(f func() (machine, error)) { thisMachine = f }(thisMachine)
	const panics, limit = "sys/kernel/panic_on_warn", "sys/kernel/warn_limit"
	for _, tt := range []struct {
		name, arch, release string
		files               map[string]string
		err                 string // part of the error, or "" if the types are used
	}{
		{"new", "amd64", "6.1.0-56-cloud-amd64", map[string]string{panics: "0\n", limit: "0\n"}, ""},
		{"no limit of warnings", "amd64", "5.10.0-46-amd64", map[string]string{panics: "0\n"}, ""},
		{"first that checks addresses", "amd64", "5.8.0-1-generic", map[string]string{panics: "0\n"}, ""},
		{"panics", "amd64", "6.1.0-56-cloud-amd64", map[string]string{panics: "1\n", limit: "0\n"}, "panic_on_warn is 1"},
		{"panics, arm64", "arm64", "6.1.0-56-cloud-arm64", map[string]string{panics: "1\n"}, "panic_on_warn is 1"},
		{"panics later", "amd64", "6.2.0", map[string]string{panics: "0\n", limit: "3\n"}, "warn_limit is 3"},
		{"unknown", "amd64", "6.1.0", nil, "is unknown"},
		{"warns", "amd64", "5.4.286", map[string]string{panics: "0\n"}, "before Linux 5.8"},
		{"may warn", "amd64", "4.18.0-553.el8_10.x86_64", map[string]string{panics: "0\n"}, "before Linux 5.8"},
		{"old, arm64", "arm64", "5.4.17-2136.el8uek.aarch64", map[string]string{panics: "0\n"}, ""},
	} {
		proc := fstest.MapFS{}
		for path, content := range tt.files {
			proc[path] = &fstest.MapFile{Data: []byte(content)}
		}
		thisMachine = func() (machine, error) { return machine{tt.arch, tt.release, proc}, nil }
		for _, exact := range []bool{false, true} {
			opened := errors.New("opened")
			_, err := Open(source.Options{}, &btfhub.Kernel{Origin: "TYPES", Exact: exact}, func(source.Options) (*enginetest.Source, error) {
				return nil, opened
			})
			if tt.err == "" || exact {
				if !errors.Is(err, opened) {
					t.Errorf("%s: exact=%v: got error %v", tt.name, exact, err)
				}
				continue
			}
			if !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, opened) || !strings.Contains(err.Error(), tt.err) ||
				!strings.Contains(err.Error(), "TYPES") || !strings.Contains(err.Error(), btfhub.PathVariable) {
				t.Errorf("%s: got error %v, want an error with %q", tt.name, err, tt.err)
			}
		}
	}
}
