package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
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
	torn   bool      // it may end in half a line, beyond size
	half   bool      // it ends in half a line of somebody else
	period time.Time // what RotateEvery calls the time of the file's last line
	buffer []byte
	// left is why old files are there that Keep does not allow, or why the file could not be
	// renamed, until it is reported.
	left error
	// again is when to try to rename the file, after that failed; until then it grows.
	again time.Time
}

// openPath opens a file or FIFO.
func openPath(name string, o *Options) (sink, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	case err != nil || st.Mode().IsRegular():
		f := &file{name: name, o: o}
		return f, f.open()
	case st.Mode().Type() != os.ModeNamedPipe:
		return nil, fmt.Errorf("%s is no regular file and no FIFO: name one that is", name)
	case o.RotateSize|int64(o.RotateEvery)|int64(o.Keep) != 0:
		return nil, fmt.Errorf("%s is a FIFO, which is not rotated: leave out the size, time and number of files", name)
	}
	return openFIFO(name)
}

func (f *file) open() error {
	// Without O_NONBLOCK what became a FIFO meanwhile would wait for its reader.
	opened, err := os.OpenFile(f.name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	st, err := opened.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: name one that is", f.name)
	}
	if err == nil {
		if _, err = opened.Write(nil); err != nil { // a file of /proc that can only be read
			err = fmt.Errorf("%w: name a file that can be written", err)
		}
	}
	const others = 0o077
	if err == nil && st.Mode()&others != 0 && runtime.GOOS != "windows" { // it has no modes
		err = opened.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.f, f.size, f.torn, f.half = opened, st.Size(), false, endsInHalf(f.name, st.Size())
	f.period = f.periodOf(st.ModTime())
	return nil
}

// endsInHalf reports whether the last line of a file has no end, as what wrote it was killed.
func endsInHalf(name string, size int64) bool {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err == nil && last[0] != '\n'
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

func (f *file) send(ctx context.Context, batch []entry) spool.Outcome {
	for done := 0; done < len(batch); {
		n, err := 0, ctx.Err()
		if err == nil {
			n, err = f.write(batch[done:])
		}
		if done += n; err != nil {
			return spool.Outcome{Retry: true, Done: done, Err: fmt.Errorf("trying again: %w", err)}
		}
	}
	out := spool.Outcome{Err: f.left}
	f.left = nil
	return out
}

// write writes as many entries as the file has room for, and at least one: a line that is longer
// than a file may be has one of its own. Of what can't be written nothing is left, not half a line.
func (f *file) write(batch []entry) (n int, err error) {
	if err := f.ready(len(batch[0].line)); err != nil {
		return 0, err
	}
	f.buffer = f.buffer[:0]
	if f.half {
		f.buffer = append(f.buffer, '\n')
	}
	f.buffer = append(f.buffer, batch[0].line...)
	for n = 1; n < len(batch); n++ {
		line := batch[n].line
		if f.o.RotateSize > 0 && f.again.IsZero() && f.size+int64(len(f.buffer)+len(line)) > f.o.RotateSize {
			break
		}
		f.buffer = append(f.buffer, line...)
	}
	written, err := f.f.Write(f.buffer)
	if err != nil {
		if written > 0 {
			f.torn = true
			err = errors.Join(err, f.mend())
		}
		return 0, err
	}
	f.size += int64(written)
	f.half = false
	return n, nil
}

// mend cuts off half a line.
func (f *file) mend() error {
	if f.torn {
		if err := f.f.Truncate(f.size); err != nil {
			return fmt.Errorf("cut off half a line: %w", err)
		}
		f.torn = false
	}
	return nil
}

// ready makes sure that the file is there, and has room for so many bytes more.
func (f *file) ready(more int) error {
	if err := renew(&f.f, f.name, f.open); err != nil {
		return err
	}
	if err := f.mend(); err != nil {
		return err
	}
	st, err := f.f.Stat()
	if err != nil {
		return err
	}
	f.size = st.Size() // others may have cut it
	if f.half {
		more++
	}
	now := f.periodOf(time.Now())
	large := f.o.RotateSize > 0 && f.size+int64(more) > f.o.RotateSize
	if f.size == 0 || !large && now.Equal(f.period) {
		f.period = now
		return nil
	}
	if time.Now().Before(f.again) {
		return nil
	}
	f.again = time.Time{}
	period := f.period
	if err := f.rotate(); err != nil {
		f.left = fmt.Errorf("the file grows until it can be renamed: %w", err)
		f.again = time.Now().Add(cmp.Or(f.o.RetryMax, spool.DefaultRetryMax))
	}
	if err := f.open(); err != nil {
		return err
	}
	if !f.again.IsZero() {
		f.period = period // not that of what is written now: it is to be renamed still
	}
	return nil
}

// renew opens what has a name if it is not open, or is not f any more.
func renew(f **os.File, name string, open func() error) error {
	if *f != nil && isNameOf(name, *f) {
		return nil
	}
	if *f != nil {
		(*f).Close()
		*f = nil
	}
	return open()
}

// isNameOf reports whether a name is still that of an open file.
func isNameOf(name string, f *os.File) bool {
	a, err := os.Stat(name)
	if err != nil {
		return false
	}
	b, err := f.Stat()
	return err == nil && os.SameFile(a, b)
}

// stamp is in the names of renamed files, which are in the order of time by it.
const stamp = "20060102T150405.000000Z"

// rotate renames the file, and removes the oldest of those that were renamed.
func (f *file) rotate() error {
	f.f.Close()
	f.f = nil
	name, err := filepath.EvalSymlinks(f.name) // a link stays, and names the new file
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	to, at := "", time.Now().UTC()
	for ; to == ""; at = at.Add(time.Microsecond) {
		to = name + "." + at.Format(stamp)
		if _, err := os.Lstat(to); err == nil {
			to = "" // of a clock that was set back
		}
	}
	if err := os.Rename(name, to); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if f.o.Keep <= 0 {
		return nil
	}
	old, err := rotated(name)
	for len(old) > f.o.Keep {
		err = errors.Join(err, os.Remove(old[0]))
		old = old[1:]
	}
	if err != nil {
		f.left = fmt.Errorf("more than %d old files are kept, remove them by hand: %w", f.o.Keep, err)
	}
	return nil
}

// rotated returns the files that were renamed from a name, the oldest first.
func rotated(name string) (names []string, err error) {
	dir := filepath.Dir(name)
	all, err := os.ReadDir(dir)
	for _, e := range all {
		at, ok := strings.CutPrefix(e.Name(), filepath.Base(name)+".")
		if _, err := time.Parse(stamp, at); ok && err == nil && e.Type().IsRegular() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, err
}
