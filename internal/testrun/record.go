package testrun

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startRecord and resultRecord are the lines of -j.
type startRecord struct {
	Type    string `json:"type"` // "start"
	Test    string `json:"test"`
	Backend string `json:"backend"`
}

type resultRecord struct {
	Type       string `json:"type"` // "result"
	Test       string `json:"test"`
	Backend    string `json:"backend"`
	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Log        string `json:"log,omitempty"`
}

// records writes records to a file or a serial line; a nil one writes none.
type records struct{ f *os.File }

// openRecords opens a file to append to. A terminal does not become the
// controlling one, as its hangup would then kill us.
func openRecords(name string) (*records, error) {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOCTTY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s for records: %w", name, err)
	}
	return &records{os.NewFile(uintptr(fd), name)}, nil
}

func (r *records) close() error {
	if r == nil {
		return nil
	}
	return r.f.Close()
}

func (r *records) start(j Job) error {
	return r.write(startRecord{"start", j.Test.Name, j.Backend})
}

func (r *records) result(j Job, v verdict, took time.Duration, log string) error {
	return r.write(resultRecord{"result", j.Test.Name, j.Backend, v.State, v.Reason, took.Milliseconds(), log})
}

// write writes a record as one line, whole and at once: others write to the same
// serial line.
func (r *records) write(record any) error {
	if r == nil {
		return nil
	}
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if _, err := r.f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// maxLog bounds the log that a record carries; a serial line is slow.
const maxLog = 32 << 10

// cut returns s, or its end with a note of what is missing.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	tail := s[len(s)-max:]
	if i := strings.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	return fmt.Sprintf("[%d bytes left out]\n%s", len(s)-len(tail), tail)
}
