package otlp_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/internal/retry"
)

// flood exports n events, and fails the test if Export waits for the target. between is called a
// few times in between.
func flood(t *testing.T, o otlp.Options, n int, between func(i int, e *otlp.Exporter)) (e *otlp.Exporter) {
	t.Helper()
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exec("/usr/bin/id", "-u").Exit(0)
	each(t, m, quark.Options{}, func(q *quark.Queue) func(*quark.Event) {
		var err error
		if e, err = otlp.New(q, o); err != nil {
			t.Fatal(err)
		}
		return func(ev *quark.Event) {
			if ev.Events == 0 {
				return
			}
			longest := time.Duration(0)
			for i := range n {
				begin := time.Now()
				e.Export(ev)
				longest = max(longest, time.Since(begin))
				if between != nil && i%(n/20) == 0 {
					between(i/(n/20), e)
				}
			}
			if longest > time.Second {
				t.Errorf("Export took %v", longest)
			}
		}
	})
	return e
}

// drained waits until no event is waiting.
func drained(t *testing.T, e *otlp.Exporter) {
	t.Helper()
	for range retry.For(time.Minute) {
		if e.Counts().Queued == 0 {
			return
		}
	}
	t.Errorf("got counts after a minute %+v", e.Counts())
}

func checkBalance(t *testing.T, n export.Counts, taken uint64) {
	t.Helper()
	if n.Taken != taken || n.Taken != n.Delivered+n.Queued+n.Lost() {
		t.Errorf("exported %d, got counts %+v", taken, n)
	}
}

// Errors of targets are counted by cause or retried, and do not delay Export.
func TestBadTargets(t *testing.T) {
	const events = 500
	protobuf := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
	partial := func(n int64) func(http.ResponseWriter, *http.Request, int32) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			answer(w, &collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: n, ErrorMessage: "too old"}})
			return true
		}
	}
	status := func(status int) func(http.ResponseWriter, *http.Request, int32) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			protobuf(w, status, "")
			return true
		}
	}
	// first makes a target that behaves wrongly only at first
	first := func(f func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, int32) bool {
		return func(w http.ResponseWriter, r *http.Request, n int32) bool {
			if n <= 3 {
				f(w, r)
			}
			return n <= 3
		}
	}
	for _, c := range []struct {
		name    string
		behave  func(w http.ResponseWriter, r *http.Request, request int32) bool
		dropped map[string]uint64
		report  string
	}{
		{"refuses", status(400), map[string]uint64{"rejected": events}, "50 events are dropped: failed to send logs"},
		{"wants credentials", status(401), map[string]uint64{"rejected": events}, "401 Unauthorized"},
		{"is elsewhere", status(404), map[string]uint64{"rejected": events}, "404 Not Found"},
		{"writes a book", func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			protobuf(w, 400, strings.Repeat("no ", 10000))
			return true
		}, map[string]uint64{"rejected": events}, "400 Bad Request"},
		{"finds it too large", status(413), map[string]uint64{"rejected": events}, "413 "},
		{"is another page", func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			io.WriteString(w, "<html>Welcome")
			return true
		}, map[string]uint64{"rejected": events}, `is not an OTLP receiver, as it answers with "text/html"`},
		{"lies in protobuf", func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			protobuf(w, 200, "\xff\xff\xff")
			return true
		}, map[string]uint64{"rejected": events}, "not an OTLP message"},
		{"sends for ever", func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			protobuf(w, 200, strings.Repeat("\xff", 8<<20))
			return true
		}, map[string]uint64{"rejected": events}, "not an OTLP message"},
		{"refuses a part", partial(5), map[string]uint64{"rejected": 5}, // of each request
			"too old (5 logs rejected)"},
		{"refuses more than there are", partial(1e12), map[string]uint64{"rejected": events}, "logs rejected"},
		{"refuses less than none", partial(-7), nil, ""},
		{"warns", func(w http.ResponseWriter, _ *http.Request, _ int32) bool {
			answer(w, &collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{ErrorMessage: "use v2"}})
			return true
		}, nil, "use v2 (0 logs rejected)"},
		{"sends elsewhere", func(w http.ResponseWriter, r *http.Request, _ int32) bool {
			http.Redirect(w, r, "/other", http.StatusFound)
			return true
		}, map[string]uint64{"rejected": events}, "302 Found"},
		{"is busy", first(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}), nil, "status 429"},
		{"is not ready", first(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), nil, "status 503"},
		{"hangs up", first(func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}), nil, "no answer"},
		{"hangs up in its answer", first(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the exporter may be writing yet
			c, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\n")
			c.Close()
		}), nil, "no answer, retrying: unexpected EOF"},
		{"hangs up before the end of its answer", first(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			c, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\n\x0a")
			c.Close()
		}), nil, "no answer, retrying: unexpected EOF"},
		{"is slow", first(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}), nil, "no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			var requests atomic.Int32
			r.behave = func(w http.ResponseWriter, q *http.Request) bool { return c.behave(w, q, requests.Add(1)) }
			o := quick(r.url())
			o.Delay = time.Hour // each batch is full
			if c.name == "is slow" {
				o.Timeout = 300 * time.Millisecond
			}
			reports := make(chan error, 100)
			o.Report = func(err error) { reports <- err }
			e := flood(t, o, events, nil)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			n := e.Counts()
			checkBalance(t, n, events)
			lost := uint64(0)
			for cause, want := range c.dropped {
				if c.name == "refuses a part" {
					want *= uint64(requests.Load())
				}
				if lost += want; n.Dropped[cause] != want {
					t.Errorf("%s: %d, want %d", cause, n.Dropped[cause], want)
				}
			}
			if n.Lost() != lost || n.Queued != 0 {
				t.Errorf("got counts %+v", n)
			}
			if c.name == "warns" {
				if len(reports) != 1 {
					t.Errorf("got %d reports of one warning", len(reports))
				}
			} else if len(c.dropped) == 0 && c.report != "" && distinct(r.got()) != events {
				t.Errorf("received %d records, want %d", distinct(r.got()), events)
			}
			if c.report == "" {
				return
			}
			select {
			case err := <-reports:
				if err == nil || !strings.Contains(err.Error(), c.report) || len(err.Error()) > 500 {
					t.Errorf("reported %v, want %q", err, c.report)
				}
			default:
				t.Errorf("nothing is reported, want %q", c.report)
			}
		})
	}
}

// With an absent or silent target only events beyond the queue's size are dropped, and Close
// returns in time.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never reads
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() }) // after the parallel subtests
	plain := newReceiver(t)
	for name, url := range map[string]string{
		"nobody":  "http://127.0.0.1:1",
		"silent":  "http://" + silent.Addr().String(),
		"no name": "http://nobody.invalid:4318",
		"no TLS":  "https://" + plain.address,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quick(url)
			o.Length, o.Grace, o.Timeout = 100, 2*time.Second, 200*time.Millisecond
			e := flood(t, o, 1000, nil)
			checkBalance(t, e.Counts(), 1000)
			begin := time.Now()
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("Close took %v", d)
			}
			n := e.Counts()
			checkBalance(t, n, 1000)
			// One batch was being sent, and the other had not begun.
			if n.Delivered != 0 || n.Queued != 0 || n.Dropped["queue_full"] < 800 || n.Dropped["ended"] == 0 || n.Dropped["unconfirmed"] == 0 || n.Dropped["rejected"] > 0 {
				t.Errorf("got counts %+v", n)
			}
		})
	}
}

// If a receiver is killed and restarted, each event is received or counted as dropped.
func TestKilledReceiver(t *testing.T) {
	r := newReceiver(t)
	o := quick(r.url())
	o.Length = 2000
	const events = 20000
	e := flood(t, o, events, func(i int, e *otlp.Exporter) {
		switch i % 4 {
		case 1:
			r.kill()
		case 3:
			r.start()
		}
		time.Sleep(20 * time.Millisecond)
		if i == 19 {
			drained(t, e) // so that what follows has room, and tells of what had none
		}
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	n := e.Counts()
	checkBalance(t, n, events)
	if came := distinct(r.got()); came+n.Lost() != events || n.Dropped["queue_full"] == 0 {
		t.Errorf("received %d records, counts %+v", came, n)
	}
	told := uint64(0)
	for _, record := range r.got() {
		if record.EventName == "quark.events.dropped" {
			told++
		}
	}
	if told == 0 {
		t.Error("no record reports the dropped events")
	}
}
