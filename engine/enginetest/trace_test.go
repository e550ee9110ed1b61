package enginetest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

var update = flag.Bool("update", false, "write the events of the traces in testdata as they are now")

// The events of a recorded trace of each backend and series of kernels are those of the golden
// file. The traces are of
//
//	go test -run TestRecordLives . -record $PWD/engine/enginetest/testdata
//
// and of guests, where it prints them: -exec "build/amd64/quark-matrix exec --kernel 6.1-cloud"
// and -v -record -.
func TestTraces(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.trace")
	if len(files) < 2 {
		t.Fatalf("only %q are there", files)
	}
	for _, file := range files {
		for suffix, minAgg := range map[string]bool{".joined": false, ".apart": true} {
			t.Run(filepath.Base(file)+suffix, func(t *testing.T) {
				got, golden := replay(t, file, minAgg), strings.TrimSuffix(file, ".trace")+suffix
				if *update {
					if err := os.WriteFile(golden, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// replay returns the events of a trace as text, in short if they are not joined.
func replay(t *testing.T, file string, minAgg bool) (text []byte) {
	src := enginetest.Trace(t, file)
	e, err := engine.New(src, src.Clock(), engine.Options{MinAgg: minAgg})
	if err != nil {
		t.Fatal(err)
	}
	learn := func(r *engine.RawEvent) error { e.Learn(r); return nil }
	if err := src.Scan(learn); err != nil {
		t.Fatal(err)
	}
	for !e.Drained() {
		ev, err := e.Get()
		if err != nil {
			src.Arm(true)
			continue
		}
		if minAgg {
			text = fmt.Appendf(text, "%d %d %s\n", ev.Time, ev.Process.PID, ev.Events)
		} else {
			text = ev.AppendDump(text)
		}
	}
	return text
}
