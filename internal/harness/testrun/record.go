package testrun

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
)

// records writes records to a file or a serial line; a nil one writes none.
type records struct{ f *os.File }

// openRecords opens a file to append to. A terminal does not become the controlling
// terminal, whose hangup would kill this process.
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

func (r *records) plan(list []Job) error {
	var plan record.Plan
	for _, j := range list {
		for _, b := range j.Backends {
			plan.Jobs = append(plan.Jobs, record.Job{Test: j.Test.Name, Backend: b})
		}
	}
	return r.write(plan)
}

// start writes that a job begins. The record has left the machine when it returns, so
// that it is not lost if the job crashes the machine.
func (r *records) start(j Job) error {
	if r == nil {
		return nil
	}
	for _, b := range j.Backends {
		if err := r.write(record.Start{Test: j.Test.Name, Backend: b}); err != nil {
			return err
		}
	}
	if err := record.Drain(r.f); err != nil {
		return fmt.Errorf("drain records: %w", err)
	}
	return nil
}

// result writes the result of a job on backend i.
func (r *records) result(j Job, i int, v verdict, took time.Duration, log string) error {
	return r.write(record.Result{Test: j.Test.Name, Backend: j.Backends[i], State: v.State, Reason: v.Reason,
		DurationMS: took.Milliseconds(), Joint: i > 0, Log: log})
}

// write writes a record as one line in one call, because others write to the same
// serial line.
func (r *records) write(rec any) error {
	if r == nil {
		return nil
	}
	line, err := record.Encode(rec)
	if err != nil {
		return err
	}
	if _, err := r.f.Write(line); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// maxLog bounds the log in a record, because a serial line is slow.
const maxLog = 32 << 10

// cut returns the last max bytes of s, with a note of how many are missing.
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
