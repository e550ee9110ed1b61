// Package reopen appends to a file of lines and reopens it by name on SIGHUP, for logrotate(8).
package reopen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/quark-linux/quark/internal/rawfile"
)

// File is a file of lines. No line is split between an old and a new file. Its methods may be
// called from any goroutine.
type File struct {
	name   string
	failed func(error)
	hangup chan os.Signal

	mu   sync.Mutex
	f    *os.File
	half bool // the last line is incomplete
	due  bool // reopen after the end of the line
}

// Open opens a regular file for appending, or creates one that only its owner can read. It ends an
// incomplete last line. From now on SIGHUP reopens the file and does not end the program. If
// reopening fails, the File calls failed, and the old file stays in use.
func Open(name string, failed func(error)) (*File, error) {
	f := &File{name: name, failed: failed, hangup: make(chan os.Signal, 1)}
	if err := f.open(); err != nil {
		return nil, err
	}
	signal.Notify(f.hangup, syscall.SIGHUP)
	go func() {
		for range f.hangup {
			f.Reopen()
		}
	}()
	return f, nil
}

// open opens the file by name, and closes the old one on success.
func (f *File) open() error {
	// With O_RDWR a FIFO does not wait for a reader, and the last byte is readable.
	file, err := os.OpenFile(f.name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: name a regular file", f.name)
	}
	if err == nil && st.Size() > 0 {
		var last [1]byte
		if _, err = file.ReadAt(last[:], st.Size()-1); err == nil && last[0] != '\n' {
			_, err = file.WriteString("\n")
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if f.f != nil {
		err = f.f.Close() // the system may report a failed write only now
	}
	f.f = file
	return err
}

// Reopen opens the file by name: now, or after the current line.
func (f *File) Reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = f.half
	if !f.due {
		f.reopen()
	}
}

func (f *File) reopen() {
	if err := f.open(); err != nil {
		f.failed(fmt.Errorf("reopen the file: %w", err))
	}
}

// Write appends lines, or parts of them.
func (f *File) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.due {
		return f.write(b)
	}
	end := bytes.IndexByte(b, '\n') + 1
	if end == 0 {
		return f.write(b)
	}
	n, err := f.write(b[:end])
	if err != nil {
		return n, err
	}
	f.due = false
	f.reopen()
	rest, err := f.write(b[end:])
	return n + rest, err
}

func (f *File) write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := rawfile.File{File: f.f}.Write(b)
	if n > 0 {
		f.half = b[n-1] != '\n'
	}
	return n, err
}

// Close closes the file. SIGHUP then ends the program again.
func (f *File) Close() error {
	signal.Stop(f.hangup)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}
