// Package script is the language of generated workloads and of simple scenarios: which processes
// and threads there are, what each does, and in which order. Package scenario runs scripts.
//
// A script has one operation a line. An operation that starts a process or thread has its
// operations as a block, indented by two more spaces:
//
//	process
//	  chdir a
//	  fork
//	    setresuid 1000 0 0
//	    exec absolute "first argument" second
//	    exit 3
//	  wait
//	  exit 0
//
// Arguments with characters other than printable ASCII are quoted as in Go. Text after # is a
// comment. A process that reaches the end of its block exits with status 0, a thread ends. A
// process continues after an operation that the kernel rejects. "pause" waits until the process has
// been observed from outside. "exec" executes a program that continues with the block. "clone
// again" requests the pid that the last wait freed.
package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of each script.
const (
	maxProcesses = 64
	maxOps       = 24 // of one process
	maxDepth     = 8
	maxArgs      = 40
	maxText      = 4096
)

// Script is a list of processes that start one after the other and run at the same time.
type Script struct{ Processes []*Process }

// Process has the operations of one process or thread.
type Process struct{ Ops []Op }

// Op is an operation. Process is the process that it starts, or nil.
type Op struct {
	Name    string
	Args    []string
	Process *Process
	line    int // line number in the text
}

// Parse parses a script. Errors have the line number.
func Parse(text string) (*Script, error) {
	s := new(Script)
	// The open blocks, from the outermost inwards. The first is the script itself, which is not
	// a process.
	blocks := []*Process{nil}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(words) == 0 {
			continue
		}
		line = strings.TrimRight(line, " \r\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		depth := indent / 2
		switch {
		case indent%2 != 0 || depth >= len(blocks):
			return nil, fmt.Errorf("line %d: no block has an indent of %d spaces: indent by two", number, indent)
		case depth == 0:
			if words[0] != "process" || len(words) > 1 {
				return nil, fmt.Errorf("line %d: an unindented block begins with \"process\"", number)
			}
			s.Processes = append(s.Processes, new(Process))
			blocks = append(blocks[:1], s.Processes[len(s.Processes)-1])
			continue
		}
		op := Op{Name: words[0], Args: words[1:], line: number}
		blocks = blocks[:depth+1]
		if o := find(op.Name); o != nil && o.starts != 0 {
			op.Process = new(Process)
			blocks = append(blocks, op.Process)
		}
		blocks[depth].Ops = append(blocks[depth].Ops, op)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// split splits a line into words.
func split(line string) (words []string, err error) {
	for rest := strings.Trim(line, " \r\n"); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, " ") {
		word := ""
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("missing closing quote")
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			rest = rest[len(quoted):]
		} else {
			word, _, _ = strings.Cut(rest, " ")
			rest = rest[len(word):]
		}
		words = append(words, word)
	}
	return words, nil
}

// String returns the text that [Parse] reads.
func (s *Script) String() string {
	var b strings.Builder
	for _, l := range s.Processes {
		b.WriteString("process\n")
		l.write(&b, "  ")
	}
	return b.String()
}

func (l *Process) write(b *strings.Builder, indent string) {
	for _, o := range l.Ops {
		b.WriteString(indent + o.Name)
		for _, a := range o.Args {
			b.WriteString(" " + quote(a))
		}
		b.WriteByte('\n')
		if o.Process != nil {
			o.Process.write(b, indent+"  ")
		}
	}
}

// quote quotes a word if necessary.
func quote(word string) string {
	plain := func(r rune) bool { return r > ' ' && r <= '~' && r != '"' && r != '#' }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.QuoteToASCII(word)
}

// check returns an error if the script can't run.
func (s *Script) check() error {
	n := 0
	for _, l := range s.Processes {
		if err := l.check(inProcess, 1, &n, false); err != nil {
			return err
		}
	}
	return nil
}

// apart reports whether the operation puts later children into a separate pid namespace. Such
// children start no processes, whose pids would be unknown.
func (o *Op) apart() bool {
	return (o.Name == "clone" || o.Name == "unshare") && slices.Contains(o.Args, "pid")
}

func (l *Process) check(in kind, depth int, n *int, alone bool) error {
	*n++
	if *n > maxProcesses || depth > maxDepth || len(l.Ops) > maxOps {
		return fmt.Errorf("a script has at most %d processes, nested %d deep, with %d operations each", maxProcesses, maxDepth, maxOps)
	}
	child := false // the process has a child to kill
	apart := false // its later children are in another pid namespace
	for i := range l.Ops {
		op := &l.Ops[i]
		apart = apart || op.Name == "unshare" && op.apart()
		o := find(op.Name)
		if err := op.check(o, in, child, i == len(l.Ops)-1); err != nil {
			return fmt.Errorf("line %d: %w", op.line, err)
		}
		child = (child || o.starts == inProcess) && o.name != "kill"
		if op.Process != nil {
			if alone {
				return fmt.Errorf("line %d: %s: a process in a pid namespace of its own cannot start others", op.line, op.Name)
			}
			if err := op.Process.check(o.starts, depth+1, n, apart || op.apart()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Op) check(of *operation, in kind, child, last bool) error {
	switch {
	case of == nil:
		return fmt.Errorf("unknown operation %q", o.Name)
	case of.in&in == 0:
		return fmt.Errorf("%s is not possible in a thread", o.Name)
	case of.ends && !last:
		return fmt.Errorf("%s must be the last operation", o.Name)
	case of.name == "kill" && !child:
		return fmt.Errorf("kill: no live child")
	case (of.starts != 0) != (o.Process != nil):
		return fmt.Errorf("%s: only an operation that starts a process has a block", o.Name)
	}
	return of.check(o.Args)
}

// Count returns the number of processes and threads.
func (s *Script) Count() (n int) {
	s.each(func(*Process) { n++ })
	return n
}

func (s *Script) each(f func(*Process)) {
	var visit func(*Process)
	visit = func(l *Process) {
		f(l)
		for _, op := range l.Ops {
			if op.Process != nil {
				visit(op.Process)
			}
		}
	}
	for _, l := range s.Processes {
		visit(l)
	}
}

// Operations returns the sorted names of operations in the script. Operations with variants include
// them, as in "exec memfd".
func (s *Script) Operations() (list []string) {
	s.each(func(l *Process) {
		for _, op := range l.Ops {
			list = append(list, op.label())
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

func (o *Op) label() string {
	if len(o.Args) > 0 && find(o.Name).variants() != nil {
		return o.Name + " " + o.Args[0]
	}
	return o.Name
}

// variants returns the variants of an operation, nil if it has none.
func (o *operation) variants() []string {
	if len(o.args) == 0 || slices.Equal(o.args[0].words, name.words) {
		return nil
	}
	return o.args[0].words
}

// All returns the Operations of all possible scripts.
func All() (names []string) {
	for i := range operations {
		o := &operations[i]
		if o.variants() == nil || o.args[0].many {
			names = append(names, o.name)
		}
		for _, w := range o.variants() {
			names = append(names, o.name+" "+w)
		}
	}
	return names
}
