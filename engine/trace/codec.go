package trace

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/quark-linux/quark/engine"
)

const firstLine = "quark-trace 2\n"

// These numbers begin a record or a column. 0 ends an event. The next three begin other records:
// the time of a read of the source, the source's counters, and an offset of the clock. The columns
// follow.
const (
	endOfEvent = iota
	readRecord
	statsRecord
	clockRecord
	firstColumn
)

func appendOffset(b []byte, o engine.Offset) []byte {
	b = binary.AppendUvarint(b, clockRecord)
	b = binary.AppendUvarint(b, o.From)
	b = binary.AppendUvarint(b, o.Boot)
	b = binary.AppendVarint(b, o.Wall.UnixNano())
	return binary.AppendUvarint(b, uint64(o.WallError))
}

func readOffset(c *cursor) engine.Offset {
	return engine.Offset{From: c.uint(), Boot: c.uint(), Wall: time.Unix(0, int64(c.int())), WallError: time.Duration(c.uint())}
}

// column is a number of a record, or a text if get is nil.
type column struct {
	get  func() uint64
	set  func(uint64)
	text engine.Field
}

type number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64
}

func of[T number](p *T) column {
	return column{get: func() uint64 { return uint64(*p) }, set: func(v uint64) { *p = T(v) }}
}

func ofBool(p *bool) column {
	return column{
		get: func() uint64 {
			if *p {
				return 1
			}
			return 0
		},
		set: func(v uint64) { *p = v != 0 },
	}
}

func text(f engine.Field) column { return column{text: f} }

// row is the record last written or read. Its columns are the numbers of r and the texts.
type row struct {
	r       engine.RawEvent
	gap     engine.Gap // the value of r.Gap, if not nil
	columns []column
	last    []uint64 // the value of each column; for a text its index
	at      uint64   // when the source was read
}

// newRow returns a row of zeros. It has the columns of an event, then the columns of the fields in
// order, so that traces with fewer fields can be read. Those of an NS_CHANGE come last.
func newRow() *row {
	w := new(row)
	r, g := &w.r, &w.gap
	w.columns = append([]column{
		of(&r.Kind), of(&r.Time), of(&r.PID), of(&r.TID), of(&r.Task.Known), of(&r.Task.Cached), of(&r.Task.Truncated),
		of(&r.CPU), of(&r.Creator), of(&r.Seq), of(&r.Image), ofBool(&r.Thread), of(&r.IDChange), of(&r.Errno), of(&r.Read),
		of(&r.Tracer.PID), of(&r.Tracer.TID), of(&r.Before.EUID), of(&r.Before.EGID), ofBool(&r.Before.Known),
		of(&g.Cause), of(&g.CPU), of(&g.From), of(&g.To), of(&g.Count),
	}, fieldColumns(r, &r.Task)...)
	c, o := &r.NSChange, &r.NSChange.Old
	w.columns = append(w.columns, of(&c.Changed), of(&c.NewPID), of(&o.UTS), of(&o.IPC), of(&o.Mnt), of(&o.Net), of(&o.PID), of(&o.User), of(&o.Cgroup), of(&o.Time))
	w.last = make([]uint64, len(w.columns))
	return w
}

// reset sets all values to 0, as at the start of a block.
func (w *row) reset() {
	w.r, w.gap, w.at = engine.RawEvent{}, engine.Gap{}, 0
	clear(w.last)
}

// append appends the record of r. text returns the index of a text and whether the text is new.
func (w *row) append(b []byte, r *engine.RawEvent, text func([]byte) (uint64, bool)) []byte {
	w.r = *r
	if w.gap = (engine.Gap{}); r.Gap != nil {
		w.gap = *r.Gap
	}
	for i := range w.columns {
		col, v, added := &w.columns[i], uint64(0), false
		if col.get != nil {
			v = col.get()
		} else if v = w.last[i]; r.Task.Known.Has(col.text) {
			v, added = text(r.Bytes(col.text))
		}
		if v == w.last[i] && !added {
			continue
		}
		b = binary.AppendUvarint(b, firstColumn+uint64(i))
		b = binary.AppendVarint(b, int64(v-w.last[i]))
		w.last[i] = v
		if added {
			text := r.Bytes(col.text)
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return append(b, endOfEvent)
}

var errRecord = errors.New("invalid record")

// cursor reads the numbers of a block. It sets bad at a truncated number.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 {
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.bad = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) err() error {
	if c.bad {
		return errRecord
	}
	return nil
}

func (c *cursor) int() uint64 {
	v := c.uint()
	return v>>1 ^ -(v & 1)
}

func (c *cursor) bytes() []byte {
	n := c.uint()
	if n > min(maxText, uint64(len(c.b))) { // a bound, as each event and child copies the text
		c.b, c.bad = nil, true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// read reads an event that begins with a number. texts are the texts of the block.
func (w *row) read(number uint64, c *cursor, texts *[][]byte) error {
	for ; number != endOfEvent; number = c.uint() {
		i := number - firstColumn
		if i >= uint64(len(w.columns)) {
			return errRecord
		}
		w.last[i] += c.int()
		if col := &w.columns[i]; col.get != nil {
			col.set(w.last[i])
		} else if w.last[i] == uint64(len(*texts)) {
			*texts = append(*texts, c.bytes())
		}
	}
	if int(w.r.Kind) >= engine.NumKinds || w.r.Task.Known&^engine.AllFields != 0 || w.gap.Cause >= engine.NumLosses {
		return errRecord
	}
	for i, col := range w.columns {
		if col.get == nil && w.r.Task.Known.Has(col.text) && w.last[i] >= uint64(len(*texts)) {
			return errRecord
		}
	}
	return c.err()
}

// fill copies the event of the row to r.
func (w *row) fill(r *engine.RawEvent, texts [][]byte) {
	r.CopyNumbers(&w.r)
	if r.Kind == engine.KindGap {
		r.SetGap(w.gap)
		r.Time = w.r.Time
	}
	for i, col := range w.columns {
		if col.get == nil && w.r.Task.Known.Has(col.text) {
			r.Set(col.text, texts[w.last[i]])
		}
	}
}
