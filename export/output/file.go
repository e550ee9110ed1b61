package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/export/internal/spool"
)

// file is a file that only its owner can read: it has the arguments of all processes. It is renamed
// when it is large or old enough. Others may rename or remove it too: then a new one is begun.
type file struct {
	name   string
	o      *Options
	f      *os.File
	size   int64
	period time.Time // what RotateEvery calls the time of the file's last line
	buffer []byte
}

func openFile(name string, o *Options) (*file, error) {
	f := &file{name: name, o: o}
	return f, f.open()
}

func (f *file) open() error {
	opened, err := os.OpenFile(f.name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := opened.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: name one that is", f.name)
	}
	const others = 0o077
	if err == nil && st.Mode()&others != 0 && runtime.GOOS != "windows" { // it has no modes
		err = opened.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.f, f.size = opened, st.Size()
	f.period = f.periodOf(st.ModTime())
	return nil
}

func (f *file) periodOf(t time.Time) time.Time {
	if f.o.RotateEvery <= 0 {
		return time.Time{}
	}
	return t.UTC().Truncate(f.o.RotateEvery)
}

func (f *file) close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

// send writes a batch in whole: of what can't be written nothing is left, not half a line.
func (f *file) send(_ context.Context, batch []entry) spool.Outcome {
	f.buffer = f.buffer[:0]
	for i := range batch {
		f.buffer = append(f.buffer, batch[i].line...)
	}
	if err := f.ready(int64(len(f.buffer))); err != nil {
		return spool.Outcome{Retry: true, Err: fmt.Errorf("trying again: %w", err)}
	}
	n, err := f.f.Write(f.buffer)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, f.f.Truncate(f.size))
		}
		return spool.Outcome{Retry: true, Err: fmt.Errorf("trying again: %w", err)}
	}
	f.size += int64(n)
	return spool.Outcome{}
}

// ready makes sure that the file is there, and has room for so many bytes more.
func (f *file) ready(more int64) error {
	if f.f != nil && !f.there() {
		f.f.Close()
		f.f = nil
	}
	if f.f != nil {
		now := f.periodOf(time.Now())
		large := f.o.RotateSize > 0 && f.size+more > f.o.RotateSize
		if f.size == 0 || !large && now.Equal(f.period) {
			f.period = now
			return nil
		}
		if err := f.rotate(); err != nil {
			return err
		}
	}
	return f.open()
}

// there reports whether the name is still that of the file.
func (f *file) there() bool {
	a, err := os.Stat(f.name)
	if err != nil {
		return false
	}
	b, err := f.f.Stat()
	return err == nil && os.SameFile(a, b)
}

// stamp is in the names of renamed files, which are in the order of time by it.
const stamp = "20060102T150405.000000Z"

// rotate renames the file, and removes the oldest of those that were renamed.
func (f *file) rotate() error {
	f.f.Close()
	f.f = nil
	if err := os.Rename(f.name, f.name+"."+time.Now().UTC().Format(stamp)); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if f.o.Keep <= 0 {
		return nil
	}
	old, err := f.rotated()
	for len(old) > f.o.Keep {
		err = errors.Join(err, os.Remove(old[0]))
		old = old[1:]
	}
	if err != nil {
		return fmt.Errorf("remove old files: %w", err)
	}
	return nil
}

// rotated returns the files that were renamed, the oldest first.
func (f *file) rotated() (names []string, err error) {
	dir := filepath.Dir(f.name)
	all, err := os.ReadDir(dir)
	for _, e := range all {
		at, ok := strings.CutPrefix(e.Name(), filepath.Base(f.name)+".")
		if _, err := time.Parse(stamp, at); ok && err == nil {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, err
}
