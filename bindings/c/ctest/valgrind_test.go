package ctest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// report is valgrind's report about a program.
type report struct {
	Errors []struct {
		Kind    string   `xml:"kind"`
		What    string   `xml:"what"`
		Leak    string   `xml:"xwhat>text"`
		Address []string `xml:"auxwhat"`
		Stacks  []struct {
			Frames []struct {
				Function string `xml:"fn"`
			} `xml:"frame"`
		} `xml:"stack"`
	} `xml:"error"`
}

// ofGo describes memory of the Go runtime. Valgrind does not recognise goroutine stacks there, and
// reports some valid accesses as errors. Memory allocated by C is described as a block.
const ofGo = "rw- anonymous segment"

// valgrind runs a program under valgrind, and returns the output and the memory errors. It does not
// check for uninitialized values, because valgrind does not see which values Go sets.
func valgrind(t testing.TB, program string, args ...string) (out, stderr, wrong string) {
	t.Helper()
	needs(t, "valgrind", "to see wrong use of memory: apt-get install valgrind libc6-dbg")
	file := filepath.Join(t.TempDir(), "valgrind.xml")
	run := exec.CommandContext(t.Context(), "valgrind", append([]string{"-q", "--undef-value-errors=no", "--error-limit=no",
		"--child-silent-after-fork=yes", "--leak-check=full", "--show-leak-kinds=definite,indirect",
		"--xml=yes", "--xml-file=" + file, program}, args...)...)
	// Valgrind reports RDTSCP as supported, but the instruction is illegal on a CPU without it.
	run.Env = append(os.Environ(), "GODEBUG=cpu.rdtscp=off")
	var message bytes.Buffer
	run.Stderr = &message
	b, err := run.Output()
	if err != nil {
		t.Errorf("%s: %v", program, err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := xml.Unmarshal(written, &r); err != nil {
		t.Fatalf("parse the output of valgrind: %v\n%s", err, &message)
	}
	var defects strings.Builder
	for _, e := range r.Errors {
		if strings.HasSuffix(strings.Join(e.Address, " "), ofGo) {
			continue
		}
		fmt.Fprintf(&defects, "%s: %s%s %s\n", e.Kind, e.What, e.Leak, e.Address)
		for _, stack := range e.Stacks {
			for _, frame := range stack.Frames {
				fmt.Fprintln(&defects, "\t", frame.Function)
			}
		}
	}
	return string(b), message.String(), defects.String()
}
