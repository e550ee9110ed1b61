package prom_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/prom"
)

// sink is an exporter with counts.
type sink struct{ name string }

func (s sink) Name() string { return s.name }

func (sink) Counts() export.Counts {
	return export.Counts{Taken: 10, Delivered: 6, Queued: 1, Dropped: map[string]uint64{"queue_full": 3, "rejected": 0}}
}

// served returns a server of a queue on a machine on which a shell's children ended in each way and
// 7 events were lost.
func served(t testing.TB) (*prom.Server, *quark.Queue) {
	t.Helper()
	m := enginetest.NewMachine()
	shell := m.Running("/bin/bash", "-l")
	m.Sleep(2 * time.Second)
	shell.Fork().Exec("/usr/bin/true").Exit(0)
	shell.Fork().Exec("/usr/bin/false").Exit(1)
	shell.Fork().ExecFails("/usr/bin/no", 2).Exit(127)
	shell.Fork().Kill(9)
	m.Miss(quark.LossRingFull, 7)
	q, err := quark.New(m, quark.Options{FailedExecs: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	c := prom.New(q, prom.Options{Exporters: []export.Counter{sink{"otlp"}, sink{"syslog+unix:/tmp/\xff"}}})
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		c.Count(ev)
	}
	s, err := prom.Listen("127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, q
}

func scrape(t testing.TB, s *prom.Server) (text string, status int) {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://%s/metrics", s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), r.StatusCode
}

// shown are lines that a scrape must have.
var shown = []string{
	`quark_events_total{kind="fork",scope="process",status=""} 4`,
	`quark_events_total{kind="exec",scope="process",status=""} 2`,
	`quark_events_total{kind="exit",scope="process",status="success"} 1`,
	`quark_events_total{kind="exit",scope="process",status="failure"} 2`,
	`quark_events_total{kind="exit",scope="process",status="signal"} 1`,
	`quark_events_total{kind="exit",scope="process",status="unknown"} 0`,
	`quark_events_total{kind="exec_failed",scope="process",status="failure"} 1`,
	`quark_events_total{kind="gone",scope="process",status="unknown"} 0`,
	`quark_lost_events_total{cause="ring_full"} 7`,
	`quark_lost_events_total{cause="skipped"} 0`,
	`quark_lost_is_lower_bound 0`,
	`quark_raw_events_total 11`,
	`quark_buffered_events 0`,
	`quark_buffer_capacity_events 10000`,
	`quark_hold_time_seconds 1`,
	`quark_export_taken_events_total{exporter="otlp"} 10`,
	`quark_export_delivered_events_total{exporter="otlp"} 6`,
	`quark_export_queued_events{exporter="otlp"} 1`,
	`quark_export_dropped_events_total{cause="queue_full",exporter="otlp"} 3`,
	`quark_export_taken_events_total{exporter="syslog+unix:/tmp/?"} 10`, // not UTF-8
	`quark_export_dropped_events_total{cause="rejected",exporter="otlp"} 0`,
}

func TestMetrics(t *testing.T) {
	s, _ := served(t)
	text, status := scrape(t, s)
	lines := strings.Split(text, "\n")
	for _, want := range shown {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, name := range []string{"quark_info{backend=", "quark_processes ", "quark_delivery_lag_seconds_count ", "process_start_time_seconds "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("metric %s is missing", name)
		}
	}
	if t.Failed() || status != http.StatusOK {
		t.Logf("status %d\n%s", status, text)
	}
}

// After Close the counters are not known: a scrape fails, and does not show zeros.
func TestClosedQueueFailsTheScrape(t *testing.T) {
	s, q := served(t)
	q.Close()
	if text, status := scrape(t, s); status != http.StatusInternalServerError || strings.Contains(text, "quark_raw_events_total") {
		t.Errorf("got status %d: %s", status, text)
	}
}

func TestPortInUse(t *testing.T) {
	s, q := served(t)
	_, err := prom.Listen(s.Addr().String(), prom.New(q, prom.Options{}))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("got error %v", err)
	}
}

// Clients that send half a request, or read nothing, delay neither a scrape nor the end.
func TestSlowClients(t *testing.T) {
	s, _ := served(t)
	for i := range 40 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		request := "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
		if i%2 == 0 {
			request = request[:20]
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for status := 0; status != http.StatusOK; _, status = scrape(t, s) {
		if time.Since(begin) > 5*time.Second {
			t.Fatal("no scrape succeeded within 5 s while other clients were slow")
		}
	}
	begin = time.Now()
	s.Close()
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
}

// Many clients that send nothing, or half of a request, do not block others.
func TestSilentClients(t *testing.T) {
	s, _ := served(t)
	for i := range 200 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost:")
		}
	}
	for range 3 {
		begin := time.Now()
		if _, status := scrape(t, s); status != http.StatusOK || time.Since(begin) > 10*time.Second {
			t.Errorf("got status %d after %v", status, time.Since(begin))
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	s, _ := served(b)
	for b.Loop() {
		scrape(b, s)
	}
}
