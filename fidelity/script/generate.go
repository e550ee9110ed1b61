package script

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// The largest sizes of generated scripts.
const (
	someProcesses = 8 // number of processes and threads
	someOps       = 8 // number of operations of a process
)

// Generate returns a random script. Equal states of rng give equal scripts.
func Generate(rng *rand.Rand) *Script {
	g := &generator{rng, 1 + rng.IntN(someProcesses)}
	s := new(Script)
	for g.left > 0 {
		s.Processes = append(s.Processes, g.process(inProcess, 1, false))
	}
	return s
}

type generator struct {
	*rand.Rand
	left int // number of processes that may still be added
}

func (g *generator) process(in kind, depth int, alone bool) *Process {
	g.left--
	l := new(Process)
	child := false   // it has a child to kill
	apart := false   // its children are in another pid namespace
	overrun := false // a thread executes a program, at a random point of the leader
	for range 1 + g.IntN(someOps) {
		o := g.operation(in)
		if o.starts != 0 && (g.left == 0 || depth == maxDepth || alone) || o.name == "kill" && !child {
			continue
		}
		// Whether the leader's later operations took effect is unknown.
		if overrun && !slices.Contains([]string{"sleep", "yield", "exit", "exit-thread"}, o.name) {
			continue
		}
		op := Op{Name: o.name, Args: g.args(o)}
		if o.starts != 0 {
			op.Process = g.process(o.starts, depth+1, apart || op.apart())
			overrun = o.starts == inThread && slices.ContainsFunc(op.Process.Ops, func(op Op) bool { return op.Name == "exec" })
		}
		apart = apart || op.Name == "unshare" && op.apart()
		child = (child || o.starts == inProcess) && o.name != "kill"
		l.Ops = append(l.Ops, op)
		if o.ends {
			break
		}
	}
	return l
}

func (g *generator) operation(in kind) *operation {
	sum := 0
	allowed := func(o *operation) bool { return o.in&in != 0 }
	for i := range operations {
		if allowed(&operations[i]) {
			sum += operations[i].weight
		}
	}
	n := g.IntN(sum)
	for i := range operations {
		if o := &operations[i]; allowed(o) {
			if n -= o.weight; n < 0 {
				return o
			}
		}
	}
	panic("unreachable")
}

func (g *generator) args(o *operation) (args []string) {
	for i := range o.args {
		n := 1
		if o.args[i].many {
			n = g.IntN(4)
		}
		for range n {
			args = append(args, g.arg(&o.args[i]))
		}
	}
	return args
}

// texts are arguments and names: empty, short, longer than a comm, and hard to print.
var texts = []string{"", "x", "a b", "-c", "a name of more than fifteen bytes", "\xff\xfe\n\"", ") (", strings.Repeat("long ", 100)}

func (g *generator) arg(p *param) string {
	switch {
	case p.words != nil:
		return p.words[g.IntN(len(p.words))]
	case p.most == id.most && g.IntN(2) == 0:
		return strconv.Itoa(max(p.least, 0)) // 0 is root, which most operations need
	case p.most == micros.most:
		return strconv.Itoa(g.IntN(2000))
	case p.most != 0:
		return strconv.Itoa(p.least + g.IntN(p.most-p.least+1))
	}
	return texts[g.IntN(len(texts))]
}

// Smaller yields candidates for a shorter script, with one process or operation less. Each
// candidate is valid.
func (s *Script) Smaller() iter.Seq[*Script] {
	return func(yield func(*Script) bool) {
		try := func(change func(*Script)) bool {
			c := s.clone()
			change(c)
			return len(c.Processes) == 0 || c.check() != nil || yield(c)
		}
		for i := range s.Processes {
			if !try(func(c *Script) { c.Processes = slices.Delete(c.Processes, i, i+1) }) {
				return
			}
		}
		processes := s.all()
		// Try to remove the largest pieces first: operations together with their blocks.
		for _, blocks := range []bool{true, false} {
			for l, p := range processes {
				for i, op := range p.Ops {
					if (op.Process != nil) == blocks && !try(func(c *Script) {
						at := c.all()[l]
						at.Ops = slices.Delete(at.Ops, i, i+1)
					}) {
						return
					}
				}
			}
		}
	}
}

func (s *Script) all() (list []*Process) {
	s.each(func(l *Process) { list = append(list, l) })
	return list
}

func (s *Script) clone() *Script {
	c, err := Parse(s.String())
	if err != nil {
		panic(err) // the script was valid
	}
	return c
}
