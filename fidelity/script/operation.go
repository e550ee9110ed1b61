package script

import (
	"fmt"
	"slices"
	"strconv"
)

// kind is a set of kinds of processes.
type kind uint8

const (
	inProcess kind = 1 << iota
	inThread
	inBoth = inProcess | inThread
)

type operation struct {
	name   string
	in     kind
	starts kind    // kind of the process that it starts, whose operations are its block
	ends   bool    // no operation can follow
	weight int     // relative frequency in generated scripts
	args   []param // parameters; the last one may be repeated
}

type param struct {
	words       []string // one of these
	least, most int      // otherwise a number, if most is not 0
	many        bool     // any number of arguments, or none
	// otherwise a text without a NUL byte
}

// Signals are the names of signals that end a process, and their numbers.
var Signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "SEGV": 11, "PIPE": 13, "TERM": 15, "RT40": 40,
}

var (
	id     = param{least: -1, most: 65533} // 65534 stands for ids that a user namespace lacks
	code   = param{least: 0, most: 255}
	micros = param{least: 0, most: 100_000}
	signal = param{words: []string{"TERM", "HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "PIPE", "RT40"}}
	name   = param{words: []string{"a", "b", "c"}}
)

// Programs are the ways to execute a program: the first argument of exec.
var Programs = []string{
	"absolute", "relative", "link", "interpreter", "memfd", "unlinked", "setuid", "setgid", "missing",
}

// Streams are the standard streams: the first argument of stdio.
var Streams = []string{"stdin", "stdout", "stderr"}

var operations = []operation{
	{name: "exit", in: inBoth, ends: true, weight: 4, args: []param{code}},
	{name: "exit-thread", in: inBoth, ends: true, weight: 3, args: []param{code}},
	{name: "raise", in: inBoth, ends: true, weight: 2, args: []param{signal}},
	{name: "fork", in: inProcess, starts: inProcess, weight: 10},
	{name: "vfork", in: inProcess, starts: inProcess, weight: 4},
	{name: "clone", in: inProcess, starts: inProcess, weight: 4, args: []param{{
		words: []string{"parent", "uts", "ipc", "mnt", "user", "pid", "cgroupns", "time", "cgroup", "again", "memory", "signal"}, many: true,
	}}},
	{name: "thread", in: inProcess, starts: inThread, weight: 6},
	{name: "exec", in: inBoth, weight: 14, args: []param{{words: Programs}, {many: true}}},
	{name: "exec-long", in: inProcess, weight: 1, args: []param{{least: 0, most: 100_000}}},
	{name: "exec-broken", in: inProcess, ends: true, weight: 1},
	{name: "title", in: inProcess, weight: 1, args: []param{{}}},
	{name: "wait", in: inProcess, weight: 8},
	{name: "kill", in: inProcess, weight: 2, args: []param{signal}},
	{name: "pause", in: inProcess, weight: 3},
	{name: "trace", in: inProcess, weight: 1},
	{name: "setresuid", in: inBoth, weight: 3, args: []param{id, id, id}},
	{name: "setresgid", in: inBoth, weight: 3, args: []param{id, id, id}},
	{name: "setfsuid", in: inProcess, weight: 1, args: []param{{least: 0, most: 65533}}},
	{name: "comm", in: inBoth, weight: 3, args: []param{{}}},
	{name: "setsid", in: inProcess, weight: 2},
	{name: "setpgid", in: inProcess, weight: 2},
	{name: "unshare", in: inProcess, weight: 2, args: []param{{words: []string{"uts", "ipc", "mnt", "net", "user", "pid", "cgroupns", "time"}}}},
	{name: "setns", in: inBoth, weight: 2, args: []param{{words: []string{"uts", "ipc", "net", "cgroupns"}}}},
	{name: "stdio", in: inProcess, weight: 2, args: []param{{words: Streams}, {words: []string{
		"closed", "file", "removed", "path", "directory", "pipe", "unix", "inet", "tty", "null", "zero", "memfd", "epoll"}}}},
	{name: "cgroup", in: inProcess, weight: 1},
	{name: "login", in: inProcess, weight: 1, args: []param{id}},
	{name: "chdir", in: inProcess, weight: 5, args: []param{name}},
	{name: "rename", in: inProcess, weight: 2},
	{name: "rmdir", in: inProcess, weight: 1},
	{name: "bind", in: inProcess, weight: 1, args: []param{name}},
	{name: "chroot", in: inProcess, weight: 1},
	{name: "unlink-program", in: inProcess, weight: 1},
	{name: "rename-program", in: inProcess, weight: 1},
	{name: "core", in: inProcess, weight: 1},
	{name: "seccomp-kill", in: inBoth, weight: 1, args: []param{{words: []string{"thread", "process"}}}},
	{name: "yield", in: inBoth, weight: 3},
	{name: "sleep", in: inBoth, weight: 3, args: []param{micros}},
}

func find(name string) *operation {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	return &operations[i]
}

func (o *operation) check(args []string) error {
	least, most := len(o.args), len(o.args)
	if most > 0 && o.args[most-1].many {
		least, most = least-1, maxArgs
	}
	if len(args) < least || len(args) > most {
		return fmt.Errorf("%s: got %d arguments, want %d to %d", o.name, len(args), least, most)
	}
	for i, a := range args {
		if err := o.param(i).check(a); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

func (o *operation) param(i int) *param { return &o.args[min(i, len(o.args)-1)] }

func (p *param) check(a string) error {
	switch {
	case p.words != nil:
		if !slices.Contains(p.words, a) {
			return fmt.Errorf("%q is not one of %q", a, p.words)
		}
	case p.most != 0:
		if n, err := strconv.Atoi(a); err != nil || n < p.least || n > p.most || a != strconv.Itoa(n) {
			return fmt.Errorf("%q is not a number from %d to %d", a, p.least, p.most)
		}
	case len(a) > maxText || slices.Contains([]byte(a), 0):
		return fmt.Errorf("text of %d bytes is longer than %d, or has a NUL", len(a), maxText)
	}
	return nil
}
