//go:build linux

package record

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Writer writes records to a file or a serial line. A nil Writer writes nothing. Goroutines may
// share it.
type Writer struct {
	mu sync.Mutex
	f  *os.File
}

// OpenWriter opens a file for appending. A terminal does not become the controlling terminal,
// because its hangup would kill this process.
func OpenWriter(name string) (*Writer, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOCTTY, 0o644)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f}, nil
}

// NewWriter returns a writer to an open file.
func NewWriter(f *os.File) *Writer { return &Writer{f: f} }

// Close closes the file.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	return w.f.Close()
}

// Write writes a record as one line in one call, because others write to the same serial line. A
// Start has left the machine when Write returns: it is not lost if the job crashes the machine.
func (w *Writer) Write(rec any) error {
	if w == nil {
		return nil
	}
	line, err := Encode(rec)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.f.Write(line); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if _, ok := rec.(Start); ok {
		if err := Drain(w.f); err != nil {
			return fmt.Errorf("drain records: %w", err)
		}
	}
	return nil
}

// MaxLog bounds the log in a record, because a serial line is slow.
const MaxLog = 32 << 10

// CutLog returns the end of a log, at most the given number of bytes, with a note about the number
// of omitted bytes.
func CutLog(log string, most int) string {
	if len(log) <= most {
		return log
	}
	tail := log[len(log)-most:]
	if i := strings.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	return fmt.Sprintf("[%d bytes omitted]\n%s", len(log)-len(tail), strings.ToValidUTF8(tail, ""))
}

// longestDrain is far longer than a serial line takes for any record.
const longestDrain = 10 * time.Second

// Drain waits until all bytes written to f have been sent over the serial line. A machine that
// crashes or powers off loses unsent bytes. Drain returns at once if f is not a terminal. It
// also returns after longestDrain, because tcdrain(3) would wait forever for a line that is stuck.
func Drain(f *os.File) error {
	for end := time.Now().Add(longestDrain); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCOUTQ)
		if errors.Is(err, unix.ENOTTY) || err == nil && left == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
