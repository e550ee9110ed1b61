package otlp_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/export/otlp"
)

// TestMain also runs the exporting process of the benchmark.
func TestMain(m *testing.M) {
	if url := os.Getenv("QUARK_OTLP_EXPORT"); url != "" {
		exportPaced(url)
		return
	}
	os.Exit(m.Run())
}

const (
	paceRate    = 5000 // events a second
	paceSeconds = 5
)

// exportPaced repeatedly exports the events of a recording, and prints its CPU time and memory.
func exportPaced(url string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	f, err := os.Open("../../engine/enginetest/testdata/ebpf-6.18.trace")
	fail(err)
	source, err := trace.NewReader(f)
	fail(err)
	q, err := quark.New(source, quark.Options{})
	fail(err)
	var events []*quark.Event
	for ev, err := range q.Events(context.Background()) {
		fail(err)
		events = append(events, ev.Clone())
	}
	e, err := otlp.New(q, otlp.Options{URL: url})
	fail(err)
	var before syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	begin, sent := time.Now(), 0
	for sent < paceRate*paceSeconds {
		for due := int(time.Since(begin).Seconds() * paceRate); sent < min(due, paceRate*paceSeconds); sent++ {
			e.Export(events[sent%len(events)])
		}
		time.Sleep(10 * time.Millisecond) // quark-mon takes what came together as well
	}
	fail(e.Close())
	var after syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	n := e.Counts()
	status, err := os.ReadFile("/proc/self/status") // ru_maxrss has the parent's
	fail(err)
	var peak int
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Sscan(rest, &peak)
	fmt.Println(float64(cpu)/1000/float64(sent), float64(peak)/1024, n.Delivered, n.Lost())
}

// BenchmarkExport measures the CPU time per event and the peak memory of a process that exports
// 5,000 events per second to a receiver in another process. It also measures an absent target, for
// which as many events as possible are queued.
//
//	go test -C export -run - -bench Export -benchtime 1x ./otlp
func BenchmarkExport(b *testing.B) {
	for _, name := range []string{"delivered", "unreachable"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				url := "http://127.0.0.1:1"
				if name == "delivered" {
					url = sink(b)
				}
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), "QUARK_OTLP_EXPORT="+url)
				var errs bytes.Buffer
				cmd.Stderr = &errs
				out, err := cmd.Output()
				if err != nil {
					b.Fatalf("%v: %s", err, errs.String())
				}
				for i, field := range strings.Fields(string(out)) {
					v, err := strconv.ParseFloat(field, 64)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(v, [...]string{"us-cpu/event", "MiB-peak-rss", "delivered", "dropped"}[i])
				}
			}
		})
	}
}

// sink is a receiver.
func sink(b *testing.B) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: new(receiver)}
	go s.Serve(l)
	b.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}
