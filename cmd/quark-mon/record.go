package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
)

// files are those that are written and read, as far as there are any.
type files struct {
	recorder *trace.Writer
	replayed *trace.Reader
	treeFile *os.File
	opened   []*os.File
}

// create makes a file that only its owner can read: it shows the arguments of all processes.
func (f *files) create(name string) (*os.File, error) {
	if there, err := os.Stat(name); err == nil {
		for _, o := range f.opened {
			if used, err := o.Stat(); err == nil && os.SameFile(used, there) {
				return nil, fmt.Errorf("%s is named twice: name another file", name)
			}
		}
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := emptyForOwner(file); err != nil {
		file.Close()
		return nil, err
	}
	f.opened = append(f.opened, file)
	return file, nil
}

// emptyForOwner empties a regular file, once only its owner can read it: it may have been there.
func emptyForOwner(f *os.File) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	const others = 0o077
	if st.Mode()&others != 0 && runtime.GOOS != "windows" { // which has no such modes
		err := f.Chmod(0o600)
		if err == nil {
			st, err = f.Stat() // some file systems ignore it
		}
		if err == nil && st.Mode()&others != 0 {
			err = errors.ErrUnsupported
		}
		if err != nil {
			return fmt.Errorf("others can read %s, name another file: %w", f.Name(), err)
		}
	}
	return f.Truncate(0)
}

// open makes the queue: of the kernel or of a recording.
func (m *monitor) open() error {
	err := m.openQueue()
	if err != nil {
		return errors.Join(err, m.closeFiles())
	}
	return nil
}

func (m *monitor) openQueue() (err error) {
	var recording *os.File
	if m.replay != "" {
		if recording, err = os.Open(m.replay); err != nil {
			return err
		}
		m.opened = append(m.opened, recording)
	}
	if m.record != "" {
		f, err := m.create(m.record)
		if err != nil {
			return err
		}
		if m.recorder, err = trace.NewWriter(f); err != nil {
			return err
		}
		m.queue.Record = m.recorder
	}
	if m.tree != "" {
		if m.treeFile, err = m.create(m.tree); err != nil {
			return err
		}
	}
	if m.replay == "" {
		m.q, err = quark.Open(m.queue)
		return err
	}
	if m.replayed, err = trace.NewReader(recording, trace.Options{Speed: m.speed}); err != nil {
		return fmt.Errorf("%s: %w", m.replay, err)
	}
	m.q, err = quark.New(m.replayed, m.queue)
	return err
}

// failed reports whether a recording can't be written. close returns why.
func (m *monitor) failed() bool { return m.recorder != nil && m.recorder.Err() != nil }

// close writes the tree, ends the recording and closes the queue. It returns why a recording that
// was replayed is not complete.
func (m *monitor) close() error {
	var errs []error
	if m.treeFile != nil {
		errs = append(errs, writeTree(m.treeFile, m.q))
	}
	if m.recorder != nil {
		errs = append(errs, m.recorder.Close())
	}
	if m.replayed != nil && m.replayed.Torn() != nil {
		errs = append(errs, fmt.Errorf("%s: %w", m.replay, m.replayed.Torn()))
	}
	return errors.Join(append(errs, m.q.Close(), m.closeFiles())...)
}

func (m *monitor) closeFiles() error {
	var errs []error
	for _, f := range m.opened {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
