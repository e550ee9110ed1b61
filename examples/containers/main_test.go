package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// The machine is made up: the test needs no kernel and no root.
func TestCounters(t *testing.T) {
	id := strings.Repeat("ab", 32)
	m := enginetest.NewMachine()
	host := m.Running("/bin/bash")
	inside := host.Fork()
	inside.State.Cgroup = []byte("/system.slice/docker-" + id + ".scope")
	inside.Exec("/usr/sbin/nginx")
	host.Fork().Exec("/usr/bin/true").Exit(0)
	inside.Fork().Exec("/bin/false").Exit(1)
	inside.Fork().Exec("/bin/sleep", "9").Kill(9)
	q, err := quark.New(m, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	c := &counters{queue: q, counts: make(map[string]uint64)}
	if err := c.count(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`container_execs_total{container=""} 1`, `container_execs_total{container="` + id + `"} 3`,
		`container_exits_total{container="",failed="false"} 1`,
		`container_exits_total{container="` + id + `",failed="true"} 2`, "quark_lost_events_total 0",
	} {
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, answer.Body)
		}
	}
}
