package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/quark-linux/quark"
)

// tree draws the process table as a graph with numbered nodes.
type tree struct {
	w       *bufio.Writer
	q       *quark.Queue
	nodes   int
	known   map[*quark.Process]int // nodes of the shown processes
	missing map[quark.Identity]int // nodes of parents that are not shown
}

// writeTree writes the shown processes of q in the DOT language. An ended process is dashed. An
// edge begins at the process that forked. It is dashed if the FORK was not seen, and then begins at
// a later parent. A parent that is not shown, or not in q, is dotted.
func writeTree(out io.Writer, q *quark.Queue, shown func(*quark.Process) bool) error {
	t := &tree{w: bufio.NewWriter(out), q: q, known: make(map[*quark.Process]int), missing: make(map[quark.Identity]int)}
	fmt.Fprint(t.w, "digraph processes {\n\trankdir=LR\n\tnode [shape=box]\n")
	var all []*quark.Process
	for p := range q.Processes() {
		if shown(p) {
			t.known[p] = t.process(p)
			all = append(all, p)
		}
	}
	for _, p := range all {
		t.edge(p)
	}
	fmt.Fprint(t.w, "}\n")
	return t.w.Flush()
}

// process writes the node of p, and returns its number.
func (t *tree) process(p *quark.Process) int {
	comm, style, end := "?", "solid", ""
	if p.Known.Has(quark.FieldComm) {
		comm = quote(p.Comm)
	}
	if p.Exited {
		style = "dashed"
		switch x := p.Task.Exit; {
		case !p.Known.Has(quark.FieldExit):
			end = `\nended`
		case x.Signal() != 0:
			end = fmt.Sprintf(`\nsignal %d`, x.Signal())
		default:
			end = fmt.Sprintf(`\nexit code %d`, x.Code())
		}
	}
	var args []string
	for arg := range p.Arguments() {
		args = append(args, quote(string(arg)))
	}
	return t.node(p.PID, comm, end, style, strings.Join(args, " "))
}

func (t *tree) node(pid uint32, comm, end, style, tooltip string) int {
	t.nodes++
	fmt.Fprintf(t.w, "\tn%d [label=\"%s\\n%d%s\", style=%s, tooltip=\"%s\"]\n", t.nodes, comm, pid, end, style, tooltip)
	return t.nodes
}

// edge writes the edge to p, if it has a parent.
func (t *tree) edge(p *quark.Process) {
	id, style := p.Birth.Parent, "solid"
	if p.Birth.Known == 0 {
		if !p.Known.Has(quark.FieldPPID) {
			return
		}
		id, style = quark.Identity{PID: p.PPID}, "dashed"
	}
	if id.PID == 0 {
		return // a child of the kernel
	}
	comm := "?"
	ancestors, _ := t.q.Ancestors(p)
	if len(ancestors) > 0 {
		id, _ = ancestors[0].Identity()
		if ancestors[0].Known.Has(quark.FieldComm) {
			comm = quote(ancestors[0].Comm)
		}
	}
	from, ok := t.missing[id]
	if len(ancestors) > 0 && t.known[ancestors[0]] != 0 {
		from = t.known[ancestors[0]]
	} else if !ok {
		from = t.node(id.PID, comm, "", "dotted", "")
		t.missing[id] = from
	}
	fmt.Fprintf(t.w, "\tn%d -> n%d [style=%s]\n", from, t.known[p], style)
}

// quote returns s as a string in DOT, with unprintable characters escaped as in Go strings.
func quote(s string) string {
	s = strconv.Quote(s)
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, "&amp;").Replace(s[1 : len(s)-1])
}
