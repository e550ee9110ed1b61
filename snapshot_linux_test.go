//go:build amd64 || arm64

package quark_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// BenchmarkSnapshot opens a queue on each backend, alone and beside 5,000 other processes, which
// Open reads from /proc. It reports the shortest call, because other work only makes calls slower.
func BenchmarkSnapshot(b *testing.B) {
	b.Run("alone", benchmarkOpen)
	b.Run("5000", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "waiter")
		if err := tinyelf.WriteWaiter(path, 0); err != nil {
			b.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		for range 5000 {
			cmd := exec.Command(path)
			cmd.Stdin = r
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			defer cmd.Wait()
		}
		defer w.Close() // they end
		benchmarkOpen(b)
	})
}

func benchmarkOpen(b *testing.B) {
	for _, name := range backends.All.Names() {
		b.Run(name, func(b *testing.B) {
			set, err := backends.Parse(name)
			if err != nil {
				b.Fatal(err)
			}
			opts := quark.Options{Backends: set, Strict: true}
			if err := tryBackend(opts); err != nil {
				b.Skip(err)
			}
			cpu, wall := int64(math.MaxInt64), time.Duration(math.MaxInt64)
			for b.Loop() {
				before, begin := cpuTime(b), time.Now()
				q, err := quark.Open(opts)
				cpu, wall = min(cpu, cpuTime(b)-before), min(wall, time.Since(begin))
				if err != nil {
					b.Fatal(err)
				}
				if err := q.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu)/1e6, "least-cpu-ms")
			b.ReportMetric(float64(wall)/1e6, "least-ms")
		})
	}
}

// cpuTime returns the CPU time of this process in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
