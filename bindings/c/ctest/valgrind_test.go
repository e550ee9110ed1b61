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

// report is what valgrind writes of a program.
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

// ofGo is where Go keeps its memory. Valgrind does not know that goroutines have stacks there, and
// takes some of what they do for wrong. What C has allocated is described as a block.
const ofGo = "rw- anonymous segment"

// valgrind runs a program under valgrind, and returns its output and what it has done wrong with
// memory. Values that were never set are not looked for, as valgrind does not know what Go sets.
func valgrind(t testing.TB, program string, args ...string) (out, stderr, wrong string) {
	t.Helper()
	needs(t, "valgrind", "to see wrong use of memory: apt-get install valgrind libc6-dbg")
	file := filepath.Join(t.TempDir(), "valgrind.xml")
	run := exec.CommandContext(t.Context(), "valgrind", append([]string{"-q", "--undef-value-errors=no", "--error-limit=no",
		"--child-silent-after-fork=yes", "--leak-check=full", "--show-leak-kinds=definite,indirect",
		"--xml=yes", "--xml-file=" + file, program}, args...)...)
	// Valgrind says that there is RDTSCP, which on a CPU without it is an illegal instruction.
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
		t.Fatalf("output of valgrind: %v\n%s", err, &message)
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
