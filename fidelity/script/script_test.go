package script

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func generated(seed uint64) *Script { return Generate(rand.New(rand.NewPCG(seed, 0))) }

func TestGeneratedScriptsAreValid(t *testing.T) {
	names := make(map[string]bool)
	all := All()
	for seed := range uint64(2000) {
		s := generated(seed)
		if err := s.check(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, s)
		}
		if s.String() != generated(seed).String() {
			t.Fatalf("seed %d gives different scripts", seed)
		}
		if n := s.Count(); n < 1 || n > 8 {
			t.Fatalf("seed %d: got %d processes, want 1 to 8", seed, n)
		}
		for _, name := range s.Operations() {
			if !slices.Contains(all, name) {
				t.Fatalf("seed %d: operation %s is not in operations\n%s", seed, name, s)
			}
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("seed %d: %v\n%s\nis read as\n%s", seed, err, s, again)
		}
		s.each(func(l *Process) {
			for _, op := range l.Ops {
				names[op.Name] = true
			}
		})
	}
	for _, o := range operations {
		if !names[o.name] {
			t.Errorf("%s was never generated", o.name)
		}
	}
}

// size decreases with each step of shrinking, so shrinking ends.
func size(s *Script) (n int) {
	s.each(func(l *Process) { n += 1 + len(l.Ops) })
	return n
}

func TestSmallerScriptsAreValidAndSmaller(t *testing.T) {
	for seed := range uint64(40) {
		for s := generated(seed); s != nil; {
			var next *Script
			n := 0
			for c := range s.Smaller() {
				if err := c.check(); err != nil || size(c) >= size(s) {
					t.Fatalf("seed %d: %v\n%s\nis not smaller than\n%s", seed, err, c, s)
				}
				if next == nil || rand.IntN(n+1) == 0 {
					next = c
				}
				n++
			}
			s = next
		}
	}
}

func TestText(t *testing.T) {
	const text = "process\n  exec absolute \"a b\" \"\" #x\n\n  # alone\n  fork\n    comm \"\\xff\"\n  exit 3\n"
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const want = "process\n  exec absolute \"a b\" \"\"\n  fork\n    comm \"\\xff\"\n  exit 3\n"
	if s.String() != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got := strings.Join(s.Operations(), "; "); got != "comm; exec absolute; exit; fork" {
		t.Error(got)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"fork\n":                                       "line 1: an unindented block begins with \"process\"",
		"process\n   exit 0":                           "line 2: no block has an indent of 3 spaces",
		"process\n    exit 0":                          "line 2: no block has an indent of 4 spaces",
		"process\n  jump":                              "line 2: unknown operation \"jump\"",
		"process\n  exit 256":                          "line 2: exit: \"256\" is not a number from 0 to 255",
		"process\n  exit 0\n  wait":                    "line 2: exit must be the last operation",
		"process\n  exit":                              "line 2: exit: got 0 arguments, want 1 to 1",
		"process\n  comm \"x":                          "line 2: missing closing quote",
		"process\n  kill TERM":                         "line 2: kill: no live child",
		"process\n  thread\n    fork\n":                "line 3: fork is not possible in a thread",
		"process\n  clone mnt pid\n    thread":         "line 3: thread: a process in a pid namespace of its own cannot start others",
		"process\n  unshare pid\n  fork\n    fork":     "line 4: fork: a process in a pid namespace of its own cannot start others",
		"process\n  exec nowhere":                      "line 2: exec: \"nowhere\" is not one of",
		"process\n  comm \"a\\x00\"":                   "NUL",
		strings.Repeat("process\n", 65):                "at most 64 processes",
		"process\n  wait\n    exit 1":                  "line 3: no block has an indent of 4 spaces",
		"process x":                                    "line 1: an unindented block",
		"process\n  exec-long 100001":                  "is not a number",
		"process\n  comm " + strings.Repeat("x", 5000): "longer than",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(generated(seed).String())
	}
	f.Add("process\n  comm \"\\u00e9\\\"\"\n  clone uts ipc\n    exit 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%v\n%s\nis read as\n%s", err, s, again)
		}
	})
}

// The manual explains every operation.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/quark-fidelity.8")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), ".Sh SCRIPTS")
	for _, o := range operations {
		if !regexp.MustCompile(`(?m)^\.It (.* , )?(Cm )?` + o.name + `\b`).MatchString(section) {
			t.Errorf("%s is not in the manual", o.name)
		}
	}
}
