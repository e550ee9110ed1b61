//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOptions(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cmdline string
		want    options
	}{
		{"command", "console=ttyS0 panic=-1 quiet -- quark-test -vvv\n",
			options{results: "ttyS1", command: []string{"quark-test", "-vvv"}}},
		{"knobs", "quark.hide_btf=1 quark.cgroup=1 quark.results=ttyS0 quark.env.RING=4096 quark.env.EMPTY= -- a",
			options{hideBTF: true, cgroup1: true, results: "ttyS0", env: []string{"RING=4096", "EMPTY="}, command: []string{"a"}}},
		{"a terminal to read from", "quark.stdin=ttyS0 -- sh", options{results: "ttyS1", stdin: "ttyS0", command: []string{"sh"}}},
		{"files to keep", "quark.keep=/tmp/a quark.keep=/b -- a", options{results: "ttyS1", keep: []string{"/tmp/a", "/b"}, command: []string{"a"}}},
		{"knobs of the command are not init's", "quiet -- a quark.hide_btf=1",
			options{results: "ttyS1", command: []string{"a", "quark.hide_btf=1"}}},
		{"only the first -- counts", "-- a -- b", options{results: "ttyS1", command: []string{"a", "--", "b"}}},
		{"quotes", `foo="a -- b" quark.env.X="1 2" -- a "b c"`,
			options{results: "ttyS1", env: []string{"X=1 2"}, command: []string{"a", "b c"}}},
		{"escapes", "-- a%20b %22 100%25", options{results: "ttyS1", command: []string{"a b", `"`, "100%"}}},
		{"joined words", "-- a%00b%00%00c d%00", options{results: "ttyS1", command: []string{"a", "b", "", "c", "d", ""}}},
		{"no command", "quiet", options{results: "ttyS1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseOptions(tt.cmdline)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, tt := range []struct{ cmdline, want string }{
		{"quark.hide_bft=1 -- a", "unknown kernel argument quark.hide_bft"},
		{"quark.hide_btf=yes -- a", "0 or 1"},
		{"quark.cgroup=3 -- a", "1 or 2"},
		{"quark.results=../x -- a", "name of a device"},
		{"quark.stdin=/dev/ttyS0 -- a", "name of a device"},
		{"quark.env.=1 -- a", "unknown"},
		{"quark.keep=a -- a", "absolute path"},
		{"-- a%2", "invalid URL escape"},
		{"-- a%zz", "invalid URL escape"},
	} {
		opts, err := parseOptions(tt.cmdline)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want one with %q", tt.cmdline, err, tt.want)
		}
		// init sends the error to the results port.
		if opts.results == "" {
			t.Errorf("%q: no results port", tt.cmdline)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add(`console=ttyS0 quark.hide_btf=1 foo="a b" -- quark-test a%20b %00`)
	f.Add(`" -- "%`)
	f.Fuzz(func(t *testing.T, cmdline string) {
		opts, err := parseOptions(cmdline)
		if err == nil && opts.results == "" {
			t.Error("no results port")
		}
	})
}

func TestKept(t *testing.T) {
	dir := t.TempDir() + "/"
	for _, name := range []string{"a-1", "a-2", "b"} {
		if err := os.WriteFile(dir+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options{keep: []string{dir + "a-*", dir + "absent", dir + "absent-*"}}
	if diff := cmp.Diff([]string{dir + "a-1", dir + "a-2", dir + "absent"}, o.kept()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
