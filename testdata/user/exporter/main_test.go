package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

func TestExporter(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	for range 3 {
		sh.Fork().Exec("/bin/true").SetComm("name").Exit(1)
	}
	m.Miss(quark.LossRingFull, 5)
	q, err := quark.New(m, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	c := &counter{queue: q}
	if err := c.count(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, nil)
	for _, want := range []string{
		`quark_events_total{kind="FORK"} 3`, `quark_events_total{kind="EXEC"} 3`, `quark_events_total{kind="EXIT"} 3`,
		`quark_events_total{kind="SETPROCTITLE"} 3`, `quark_events_total{kind="GAP"} 1`,
		`quark_lost_total{cause="ring_full"} 5`, `quark_lost_total{cause="socket_full"} 0`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("%s is not in\n%s", want, w.Body)
		}
	}
}
