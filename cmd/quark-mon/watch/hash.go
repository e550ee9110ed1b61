package watch

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark"
)

// hasher prints events together with the files that their processes execute. It has a goroutine of
// its own, so that events are taken from the kernel while a large file is read.
type hasher struct {
	out   *bufio.Writer // of the goroutine, until it has ended
	json  bool
	read  func(*quark.Process) (quark.File, error)
	limit time.Duration // of reading a file
	late  chan struct{} // has an element for each file that is read longer
	lines chan hashing
	ended chan error // gets one when the goroutine ends
}

// hashing is an event to be printed, and a copy of its process.
type hashing struct {
	line []byte
	p    *quark.Process
}

// newHasher calls failed when it can't print.
func newHasher(out *bufio.Writer, json bool, failed func()) *hasher {
	h := &hasher{out: out, json: json, read: new(quark.Files).Read, limit: 5 * time.Second,
		late: make(chan struct{}, 8), lines: make(chan hashing, 4096), ended: make(chan error, 1)}
	go func() {
		err := h.run()
		h.ended <- err
		if err != nil {
			failed()
		}
	}()
	return h
}

// print prints an event, some time later.
func (h *hasher) print(line []byte, p *quark.Process) error {
	select {
	case h.lines <- hashing{append([]byte(nil), line...), p.Clone()}:
		return nil
	case err := <-h.ended:
		return err
	}
}

// close waits until all is printed.
func (h *hasher) close() error {
	close(h.lines)
	return <-h.ended
}

func (h *hasher) run() error {
	for l := range h.lines {
		if _, err := h.out.Write(h.append(l.line, l.p)); err != nil {
			return err
		}
		if len(h.lines) == 0 {
			if err := h.out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

var errLate = errors.New("its file system does not answer")

// readInTime reads a file. A file system that stands still does not hold the others up.
func (h *hasher) readInTime(p *quark.Process) (file quark.File, err error) {
	select {
	case h.late <- struct{}{}:
	default:
		return file, errLate
	}
	done := make(chan struct{})
	var got quark.File
	var gotErr error
	go func() {
		got, gotErr = h.read(p)
		close(done)
		<-h.late
	}()
	select {
	case <-done:
		return got, gotErr
	case <-time.After(h.limit):
		return file, errLate
	}
}

// fileJSON is the member "file" of an event.
type fileJSON struct {
	SHA256   string    `json:"sha256,omitempty"`
	TooLarge bool      `json:"too_large,omitempty"`
	Caps     *capsJSON `json:"caps,omitempty"`
	Carried  bool      `json:"carried,omitempty"`
	Unknown  string    `json:"unknown,omitempty"`
}

type capsJSON struct {
	Permitted   string `json:"permitted"`
	Inheritable string `json:"inheritable"`
	Effective   bool   `json:"effective"`
	Root        uint32 `json:"root_uid"`
}

// append adds the file that p executes to the text of an event, if it is known which one that is.
func (h *hasher) append(line []byte, p *quark.Process) []byte {
	if p == nil || !p.Known.Has(quark.FieldExecutable) {
		return line
	}
	var j fileJSON
	file, err := h.readInTime(p)
	switch {
	case err != nil:
		j.Unknown = err.Error()
	case file.TooLarge:
		j.TooLarge = true
	default:
		j.SHA256 = hex.EncodeToString(file.SHA256[:])
	}
	j.Carried = file.Carried
	if c := file.Caps; file.HasCaps {
		j.Caps = &capsJSON{fmt.Sprintf("%016x", c.Permitted), fmt.Sprintf("%016x", c.Inheritable), c.Effective, c.Root}
	}
	if h.json {
		text, err := json.Marshal(j)
		if err != nil {
			return line
		}
		line = append(line[:len(line)-len("}\n")], `,"file":`...)
		return append(append(line, text...), "}\n"...)
	}
	switch {
	case err != nil:
		return fmt.Appendf(line, "  FILE\tsha256=? unknown=%q\n", j.Unknown)
	case j.TooLarge:
		line = append(line, "  FILE\tsha256=? too_large=1"...)
	default:
		line = fmt.Appendf(line, "  FILE\tsha256=%s", j.SHA256)
	}
	if c := j.Caps; c != nil {
		line = fmt.Appendf(line, " caps_permitted=%s caps_inheritable=%s caps_effective=%t caps_root=%d", c.Permitted, c.Inheritable, c.Effective, c.Root)
	}
	if j.Carried {
		line = append(line, " carried=1"...)
	}
	return append(line, '\n')
}
