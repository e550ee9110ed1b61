package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/internal/reopen"
	"github.com/quark-linux/quark/internal/selection"
)

// files are the files that the monitor reads or writes.
type files struct {
	recorder   *trace.Writer
	recording  *os.File // the file to replay
	replayed   *trace.Reader
	treeFile   *target
	outputFile *reopen.File // nil without --output
	opened     []*os.File
	made       []string // files in opened that quark-mon created
}

// target is an output file. It has its old contents until the first write.
type target struct {
	*os.File
	begun bool
}

func (t *target) Write(b []byte) (int, error) {
	if !t.begun {
		if st, err := t.Stat(); err != nil {
			return 0, err
		} else if st.Mode().IsRegular() {
			if err := t.Truncate(0); err != nil {
				return 0, err
			}
		}
		t.begun = true
	}
	return t.File.Write(b)
}

// create creates a file that only its owner can read, because it contains the arguments of all
// processes.
func (f *files) create(ctx context.Context, name string) (*target, error) {
	if err := f.checkUnused(name); err != nil {
		return nil, err
	}
	file, err := f.open(ctx, name, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	switch {
	case err == nil:
		f.made = append(f.made, name)
	case errors.Is(err, os.ErrExist):
		file, err = f.open(ctx, name, os.O_CREATE|os.O_WRONLY)
	}
	if err != nil {
		return nil, err
	}
	if err := onlyForOwner(file); err != nil {
		file.Close()
		f.opened = f.opened[:len(f.opened)-1]
		return nil, err
	}
	return &target{File: file}, nil
}

// checkUnused returns an error if a file is already open.
func (f *files) checkUnused(name string) error {
	there, err := os.Stat(name)
	if err != nil {
		return nil
	}
	for _, o := range f.opened {
		if used, err := o.Stat(); err == nil && os.SameFile(used, there) {
			return fmt.Errorf("%s is named twice: name another file", name)
		}
	}
	return nil
}

// open opens a file. For a FIFO, it waits for another process until ctx ends.
func (f *files) open(ctx context.Context, name string, flag int) (*os.File, error) {
	file, err := selection.Await(ctx, func() (*os.File, error) { return os.OpenFile(name, flag, 0o600) })
	switch {
	case err == nil:
		f.opened = append(f.opened, file)
	case ctx.Err() != nil:
		err = fmt.Errorf("open %s: ended before its other end was opened", name)
	}
	return file, err
}

// onlyForOwner makes a regular file readable for its owner only, even if the file existed before.
func onlyForOwner(f *os.File) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	const others = 0o077
	if st.Mode()&others != 0 && runtime.GOOS != "windows" { // Windows has no such modes
		err := f.Chmod(0o600)
		if err == nil {
			st, err = f.Stat() // some file systems ignore Chmod
		}
		if err == nil && st.Mode()&others != 0 {
			err = errors.ErrUnsupported
		}
		if err != nil {
			return fmt.Errorf("other users can read %s: name another file: %w", f.Name(), err)
		}
	}
	return nil
}

// open opens the queue of the kernel or of a recording.
func (m *monitor) open(ctx context.Context) error {
	err := m.openQueue(ctx)
	if err != nil {
		err = errors.Join(err, m.closeFiles())
		for _, name := range m.made {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

func (m *monitor) openQueue(ctx context.Context) (err error) {
	if m.recorded {
		if m.recording, err = m.files.open(ctx, m.replay, os.O_RDONLY); err != nil {
			return err
		}
		defer context.AfterFunc(ctx, m.stopReading)()
	}
	if m.record != "" {
		f, err := m.create(ctx, m.record)
		if err != nil {
			return err
		}
		if m.recorder, err = trace.NewWriter(f); err != nil {
			return err
		}
		m.Queue.Record = m.recorder
	}
	if m.graph != "" {
		if m.treeFile, err = m.create(ctx, m.graph); err != nil {
			return err
		}
	}
	if !m.recorded {
		m.q, err = m.Options.Open(context.WithoutCancel(ctx)) // -d begins after Open
		return err
	}
	m.replayed, err = selection.Await(ctx, func() (*trace.Reader, error) { return trace.NewReader(m.recording) })
	if ctx.Err() != nil {
		return fmt.Errorf("%s: ended before its beginning was read", m.replay)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.replay, err)
	}
	m.q, err = quark.New(m.replayed, m.Queue)
	return err
}

// stopReading ends a wait for data from a FIFO.
func (m *monitor) stopReading() { m.recording.SetReadDeadline(time.Now()) }

// recordingFailed reports whether a write of the recording recordingFailed. close returns the
// error.
func (m *monitor) recordingFailed() bool { return m.recorder != nil && m.recorder.Err() != nil }

// openOutput returns the file of --output, or standard output.
func (m *monitor) openOutput(stdout, errw io.Writer) (io.Writer, error) {
	if m.output == "" {
		return stdout, nil
	}
	err := m.checkUnused(m.output)
	if err == nil {
		m.outputFile, err = reopen.Open(m.output, func(err error) { fmt.Fprintf(errw, "quark-mon: --output: %v\n", err) })
	}
	if err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	m.out.Reset(m.outputFile)
	return m.outputFile, nil
}

// inGraph reports whether a process belongs in the graph: it belongs to the command, or the filters
// passed one of its events.
func (m *monitor) inGraph(p *quark.Process) bool {
	if m.child != nil {
		id, _ := p.Identity()
		return m.child.own[id]
	}
	ev := quark.Event{Events: quark.EventFork | quark.EventExec, Process: p, TID: p.PID, Time: p.AsOf()}
	if p.Exited {
		ev.Events |= quark.EventExit
	}
	return m.q.Passes(&ev)
}

// close writes the graph, ends the recording and the queue, and closes all files. Its error also
// reports an incomplete recording.
func (m *monitor) close() error {
	var errs []error
	if m.treeFile != nil {
		errs = append(errs, writeTree(m.treeFile, m.q, m.inGraph))
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
	if m.outputFile != nil {
		errs = append(errs, m.outputFile.Close())
	}
	return errors.Join(errs...)
}
