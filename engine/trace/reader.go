package trace

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/quark-linux/quark/engine"
)

// Reader is an [engine.Source] that replays a trace as fast as possible: its clock advances
// whenever all due events are delivered. It is an [engine.Timekeeper] and an [engine.Scanner].
type Reader struct {
	from   *bufio.Reader
	offset int64 // of the next block in the trace
	zstd   *zstd.Decoder
	packed []byte
	block  []byte
	cursor cursor   // unread part of the block
	texts  [][]byte // of the block
	row    *row
	header header
	clock  *engine.Clock
	stats  engine.SourceStats

	scanned bool   // the processes at the start are read
	due     uint64 // when the next events were read
	ended   bool
	torn    error
	now     uint64 // the time of the clock
}

// NewReader returns a source that replays the trace that r reads. A read that fails with
// [os.ErrDeadlineExceeded] ends the replay without an error, so that SetReadDeadline of a file or
// connection can end a replay that waits for more.
func NewReader(r io.Reader) (*Reader, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	t := &Reader{from: bufio.NewReaderSize(r, 64<<10), zstd: dec, row: newRow()}
	if err := t.readHeader(); err != nil {
		dec.Close()
		return nil, fmt.Errorf("read trace: %w", err)
	}
	return t, nil
}

func (t *Reader) readHeader() error {
	line := make([]byte, len(firstLine))
	_, err := io.ReadFull(t.from, line)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if err != nil || string(line) != firstLine {
		return fmt.Errorf("not a trace, or a trace of another version of quark: it does not begin with %q", firstLine)
	}
	t.offset = int64(len(line))
	if err := t.readBlock(); err != nil {
		return err
	}
	if err := json.Unmarshal(t.block, &t.header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	h := &t.header
	if h.Capabilities == nil || !strings.HasPrefix(engine.AllFields.String(), h.Fields) || !strings.HasPrefix(kinds(), h.Kinds) {
		return errors.New("the fields or kinds of event are of another version of quark")
	}
	h.Host.Kernel = h.Kernel
	t.clock = engine.NewClock(func() uint64 { return t.now }, h.Host, engine.Offset{Boot: h.BootOffset, Wall: h.Wall, WallError: h.WallError})
	t.cursor.b, t.now = nil, h.Start
	return nil
}

// readBlock reads the next block. The error is io.EOF at the end of the trace.
func (t *Reader) readBlock() error {
	head := noBlock
	if _, err := io.ReadFull(t.from, head[:]); err != nil {
		return fmt.Errorf("its end is missing: %w", noEOF(err))
	}
	n := binary.LittleEndian.Uint32(head[:])
	switch {
	case head == noBlock:
		if _, err := t.from.ReadByte(); err == nil {
			return errors.New("data after the end of the trace: replay a second trace separately")
		}
		return io.EOF
	case n > maxBlock:
		return fmt.Errorf("block of %d bytes is too long", n)
	}
	t.packed = slices.Grow(t.packed[:0], int(n))[:n]
	if _, err := io.ReadFull(t.from, t.packed); err != nil {
		return fmt.Errorf("its end is missing: %w", noEOF(err))
	}
	if crc32.Checksum(t.packed, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return errors.New("wrong checksum of a block")
	}
	var err error
	if t.block, err = t.zstd.DecodeAll(t.packed, t.block[:0]); err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	t.offset += int64(len(head)) + int64(n)
	t.cursor, t.texts = cursor{b: t.block}, t.texts[:0]
	t.row.reset()
	return nil
}

// noEOF replaces io.EOF by another error, as io.EOF means the end of the trace.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next reads the next record: an event into the row, else the time of the next events.
func (t *Reader) next() (event bool, err error) {
	for {
		if len(t.cursor.b) == 0 {
			if err := t.readBlock(); err != nil {
				return false, err
			}
		}
		switch number := t.cursor.uint(); number {
		case readRecord:
			t.row.at += t.cursor.uint()
			t.due = t.row.at
			return false, t.cursor.err()
		case statsRecord:
			if err := t.readStats(); err != nil {
				return false, err
			}
		case clockRecord:
			o := readOffset(&t.cursor)
			if err := t.cursor.err(); err != nil {
				return false, err
			}
			t.clock.Add(o)
		default:
			return true, t.row.read(number, &t.cursor, &t.texts)
		}
	}
}

func (t *Reader) readStats() error {
	s := engine.SourceStats{Produced: t.cursor.uint()}
	n := t.cursor.uint()
	if n > engine.NumLosses {
		return errRecord
	}
	for i := range n {
		s.Lost[i] = t.cursor.uint()
	}
	s.Bound = t.cursor.uint() != 0
	if len(t.cursor.b) > 0 { // else it is 0
		s.Unread, s.Blocked = t.cursor.uint(), t.cursor.uint()
	}
	t.stats = s
	return t.cursor.err()
}

// end ends the replay. An error other than io.EOF means a truncated trace.
func (t *Reader) end(err error) {
	if t.ended = true; !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.torn = fmt.Errorf("trace truncated after %d bytes: %w (all earlier records were read)", t.offset, err)
	}
}

// Torn returns an error if the trace is truncated or damaged, else nil.
func (t *Reader) Torn() error { return t.torn }

// Kernel returns the release of the recorded kernel.
func (t *Reader) Kernel() string { return t.header.Kernel }

// Scan implements engine.Scanner.
func (t *Reader) Scan(f func(*engine.RawEvent) error) error {
	t.scanned = true
	var r engine.RawEvent
	for !t.ended {
		event, err := t.next()
		if err != nil {
			t.end(err)
			break
		}
		if !event {
			break
		}
		r.Reset()
		t.row.fill(&r, t.texts)
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

// Populate implements engine.Source.
func (t *Reader) Populate(to engine.Sink) error {
	if !t.scanned {
		t.Scan(func(*engine.RawEvent) error { return nil })
	}
	for !t.ended && t.due <= t.now && to.Room() > 0 {
		event, err := t.next()
		switch {
		case err != nil:
			t.end(err)
		case event:
			r := to.Reserve()
			t.row.fill(r, t.texts)
			to.Insert(r)
		}
	}
	if t.ended {
		return io.EOF
	}
	return nil
}

// Clock implements engine.Timekeeper.
func (t *Reader) Clock() *engine.Clock {
	return t.clock
}

// Arm implements engine.Source. It first advances the clock to just before the next events, so that
// older events are delivered alone, and then to the time of the next events.
func (t *Reader) Arm(bool) bool {
	switch {
	case t.ended:
	case t.now+1 < t.due:
		t.now = t.due - 1
	case t.now < t.due:
		t.now = t.due
	}
	return t.ended
}

// Name implements engine.Source: it returns the name of the recorded source.
func (t *Reader) Name() string { return t.header.Backend }

// Capabilities implements engine.Source.
func (t *Reader) Capabilities() *engine.CapabilityTable { return t.header.Capabilities }

// FD implements engine.Source.
func (t *Reader) FD() int { return -1 }

// Stats implements engine.Source: it returns the counters of the recorded source at the end of the
// last read block.
func (t *Reader) Stats() (engine.SourceStats, error) { return t.stats, nil }

// Close implements engine.Source. It does not close the reader of the trace.
func (t *Reader) Close() error {
	t.ended = true
	t.zstd.Close()
	return nil
}
