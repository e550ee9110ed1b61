package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/fidelity/filters"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// filtered are scenarios in which each field has several values.
var filtered = []string{
	"fork-exec-exit", "kill-kill", "setres-ids", "session", "comm", "pty", "memfd", "deleted", "script", "relative", "cwd-30",
	"ns-others", "ns-time", "ns-mnt-net-uts-ipc", "containers", "setuid", "file-caps", "exec-failed", "environ", "usage", "login",
}

// filterFields lets queues with a filter watch, and judges filters about all fields by what they
// recorded.
func filterFields(t *test) {
	var list []scenario.Scenario
	for _, name := range filtered {
		s, ok := scenario.Find(name)
		if !ok {
			t.Fatalf("no scenario %s", name)
		}
		list = append(list, s)
	}
	var all []*witness.Witness
	finish := make(map[string]func() *filters.Recording) // by backend
	for _, c := range t.Cells {
		c.Try(func() {
			// All processes of the scenarios are descendants of this one.
			where := fmt.Sprintf(`tree == %d and (exit or exec and exe ~ "/**")`, os.Getpid())
			if c.Backend == "taskstats" { // it reports ends alone
				where = fmt.Sprintf("tree == %d and exit and not signal == 9", os.Getpid())
			}
			f, err := quark.ParseFilter(where)
			if err != nil {
				c.Fatalf("%v", err)
			}
			var to bytes.Buffer
			writer, err := trace.NewWriter(&to)
			if err != nil {
				c.Fatalf("%v", err)
			}
			v, err := openQueue(c, quark.Options{MinAgg: true, FailedExecs: true, Environ: scenario.Environ, Record: writer, Where: f})
			if err != nil {
				c.Fatalf("%v", err)
			}
			w, opened := witness.New(witness.Listen(v.q, shortHold, false), nil, false), truth.Clock()
			all = append(all, w)
			finish[c.Backend] = func() *filters.Recording {
				if err := writer.Close(); err != nil {
					c.Fatalf("%v", err)
				}
				return &filters.Recording{Trace: to.Bytes(), Opened: opened, Live: w.Single.Seen(), Where: where}
			}
		})
	}
	if len(all) == 0 {
		t.Stop()
	}
	done := t.observe(all, list...)
	t.Waiting("the replays")
	for _, w := range all {
		c := t.cell(w.Backend)
		c.Try(func() {
			v, err := filters.Judge(finish[c.Backend](), done)
			if err != nil {
				c.Fatalf("%v", err)
			}
			for i, s := range v.Scores {
				if !s.Perfect() {
					c.Errorf("%s, in a replay: %s\n%s", done[i].Name, s, strings.Join(s.Findings, "\n"))
				}
			}
			for _, f := range v.Findings {
				c.Errorf("%s", f)
			}
			c.Logf("%d fields: %s", len(v.Tried), strings.Join(v.Tried, ", "))
		})
	}
}
