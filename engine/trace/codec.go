package trace

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"time"

	"github.com/quark-linux/quark/engine"
)

const firstLine = "quark-trace 1\n"

// Values of the first word of a mask that mark other records than events: when the source was
// read, its counters, and an offset of the clock.
const (
	readMask  = 0
	statsMask = 1 << 63
	clockMask = 1 << 62
)

func appendOffset(b []byte, o engine.Offset) []byte {
	b = binary.AppendUvarint(b, clockMask)
	b = binary.AppendUvarint(b, o.From)
	b = binary.AppendUvarint(b, o.Boot)
	b = binary.AppendVarint(b, o.Wall.UnixNano())
	return binary.AppendUvarint(b, uint64(o.WallError))
}

func readOffset(c *cursor) engine.Offset {
	return engine.Offset{From: c.uint(), Boot: c.uint(), Wall: time.Unix(0, int64(c.int())), WallError: time.Duration(c.uint())}
}

// textFields are the columns of variable length, in the order of their bits in a mask.
var textFields = [...]engine.Field{
	engine.FieldComm, engine.FieldExe, engine.FieldArgs, engine.FieldCwd, engine.FieldCgroup,
	engine.FieldExecPath, engine.FieldEnviron,
}

const numTexts = len(textFields)

// mask has a bit for each column. The first word is as in older traces, and has moreMask if the
// second is not 0 and follows.
type mask [2]uint64

const (
	earlyTexts   = 5 // of the first word, before its numbers
	earlyNumbers = 48
	moreMask     = 1 << (earlyTexts + earlyNumbers)
	lateTexts    = 8 // for which the second word has room, before its numbers
)

func (m *mask) setText(i int) {
	if i < earlyTexts {
		m[0] |= 1 << i
	} else {
		m[1] |= 1 << (i - earlyTexts)
	}
}

func (m *mask) hasText(i int) bool {
	if i < earlyTexts {
		return m[0]&(1<<i) != 0
	}
	return m[1]&(1<<(i-earlyTexts)) != 0
}

func (m *mask) setNumber(i int) {
	if i < earlyNumbers {
		m[0] |= 1 << (earlyTexts + i)
	} else {
		m[1] |= 1 << (lateTexts + i - earlyNumbers)
	}
}

// numbers yields the columns of numbers in m, in their order.
func (m mask) numbers(yield func(int) bool) {
	for w := m[0] % moreMask >> earlyTexts; w != 0; w &= w - 1 {
		if !yield(bits.TrailingZeros64(w)) {
			return
		}
	}
	for w := m[1] >> lateTexts; w != 0; w &= w - 1 {
		if !yield(earlyNumbers + bits.TrailingZeros64(w)) {
			return
		}
	}
}

// column is one number of a record.
type column struct {
	get func() uint64
	set func(uint64)
}

type number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64
}

func of[T number](p *T) column {
	return column{func() uint64 { return uint64(*p) }, func(v uint64) { *p = T(v) }}
}

func ofBool(p *bool) column {
	return column{
		func() uint64 {
			if *p {
				return 1
			}
			return 0
		},
		func(v uint64) { *p = v != 0 },
	}
}

// row is the record last written or read. Its columns are the numbers of r.
type row struct {
	r       engine.RawEvent
	gap     engine.Gap // what r.Gap points to, if not nil
	columns []column
	last    []uint64
	refs    [numTexts]uint64 // the index of each text
	at      uint64           // when the source was read
}

// newRow returns a row of zeros. Its columns have the order of the mask: frequently changing ones
// come first, and new ones last, so that older traces can be read.
func newRow() *row {
	w := new(row)
	r, t, x, u, g := &w.r, &w.r.Task, &w.r.Task.ExeFile, &w.r.Usage, &w.gap
	w.columns = []column{
		of(&r.Kind), of(&r.Time), of(&r.PID), of(&r.TID), of(&t.Known), of(&r.CPU), of(&t.Exit.Time), of(&t.Start), of(&t.PPID),
		of(&r.Creator), of(&r.Seq), of(&t.Exit.WaitStatus), of(&t.Cached), of(&r.Image), ofBool(&r.Thread), of(&t.PGID), of(&t.SID),
		of(&t.StartUnit), of(&t.Truncated), of(&r.IDChange),
		of(&t.Cred.UID), of(&t.Cred.EUID), of(&t.Cred.SUID), of(&t.Cred.GID), of(&t.Cred.EGID), of(&t.Cred.SGID),
		of(&t.Caps.Inheritable), of(&t.Caps.Permitted), of(&t.Caps.Effective), of(&t.Caps.Bounding), of(&t.Caps.Ambient),
		of(&t.TTY.Major), of(&t.TTY.Minor), of(&t.NS.UTS), of(&t.NS.IPC), of(&t.NS.Mnt), of(&t.NS.Net),
		of(&r.Tracer.PID), of(&r.Tracer.TID), of(&g.Cause), of(&g.CPU), of(&g.From), of(&g.To), of(&g.Count),
		of(&t.ParentSignal), of(&t.ParentTID), of(&t.Login.UID), of(&t.Login.Session),
		of(&x.Inode), of(&x.Ctime), of(&x.Device), of(&x.UID), of(&x.GID), of(&x.Mode), ofBool(&x.Removed),
		of(&r.Errno),
		of(&t.NSPID), of(&t.NS.PID), of(&t.NS.User), of(&t.NS.Cgroup), of(&t.NS.Time),
		of(&u.UserTime), of(&u.SystemTime), of(&u.PeakRSS), of(&u.RChar), of(&u.WChar), of(&u.ReadBytes), of(&u.WriteBytes),
		of(&r.Read), of(&r.Before.EUID), of(&r.Before.EGID), ofBool(&r.Before.Known),
	}
	w.last = make([]uint64, len(w.columns))
	return w
}

// reset makes the row of zeros that a block begins with.
func (w *row) reset() {
	for i := range w.columns {
		w.columns[i].set(0)
		w.last[i] = 0
	}
	w.refs, w.at = [numTexts]uint64{}, 0
}

// append appends the record of r. text returns the index of a text and whether it is new.
func (w *row) append(b []byte, r *engine.RawEvent, text func([]byte) (uint64, bool)) []byte {
	w.r = *r
	if w.gap = (engine.Gap{}); r.Gap != nil {
		w.gap = *r.Gap
	}
	var m mask
	for i := range w.columns {
		if w.columns[i].get() != w.last[i] {
			m.setNumber(i)
		}
	}
	var refs [numTexts]uint64
	var added [numTexts]bool
	for i := range refs {
		refs[i] = w.refs[i]
		if f := textFields[i]; r.Task.Known.Has(f) {
			if refs[i], added[i] = text(r.Bytes(f)); refs[i] != w.refs[i] || added[i] {
				m.setText(i)
			}
		}
	}
	if m == (mask{}) {
		m.setNumber(0) // a difference of 0
	}
	if m[1] != 0 {
		b = binary.AppendUvarint(b, m[0]|moreMask)
		b = binary.AppendUvarint(b, m[1])
	} else {
		b = binary.AppendUvarint(b, m[0])
	}
	for i, ref := range refs {
		if !m.hasText(i) {
			continue
		}
		b = binary.AppendUvarint(b, ref)
		if v := r.Bytes(textFields[i]); added[i] {
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		}
	}
	w.refs = refs
	for i := range m.numbers {
		v := w.columns[i].get()
		b = binary.AppendVarint(b, int64(v-w.last[i]))
		w.last[i] = v
	}
	return b
}

var errRecord = errors.New("a record makes no sense")

// cursor reads the numbers of a block. After a number that is cut, bad is set.
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
	if n > min(maxText, uint64(len(c.b))) { // each event and child copies it
		c.b, c.bad = nil, true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// read reads the rest of the record with a first word of its mask. texts are the texts of the
// block.
func (w *row) read(first uint64, c *cursor, texts *[][]byte) error {
	m := mask{first}
	if first&moreMask != 0 {
		m[1] = c.uint()
	}
	if first >= moreMask<<1 || (m[1]&(1<<lateTexts-1))>>(numTexts-earlyTexts) != 0 {
		return errRecord
	}
	for i := range w.refs {
		if !m.hasText(i) {
			continue
		}
		ref := c.uint()
		if ref == uint64(len(*texts)) {
			*texts = append(*texts, c.bytes())
		}
		if ref >= uint64(len(*texts)) {
			return errRecord
		}
		w.refs[i] = ref
	}
	for b := m[0] % moreMask >> earlyTexts; b != 0; b &= b - 1 {
		w.readNumber(bits.TrailingZeros64(b), c)
	}
	for b := m[1] >> lateTexts; b != 0; b &= b - 1 {
		i := earlyNumbers + bits.TrailingZeros64(b)
		if i >= len(w.columns) {
			return errRecord
		}
		w.readNumber(i, c)
	}
	if int(w.r.Kind) >= engine.NumKinds || w.r.Task.Known&^engine.AllFields != 0 || w.gap.Cause >= engine.NumLosses {
		return errRecord
	}
	for i, ref := range w.refs {
		if w.r.Task.Known.Has(textFields[i]) && ref >= uint64(len(*texts)) {
			return errRecord
		}
	}
	return c.err()
}

func (w *row) readNumber(i int, c *cursor) {
	w.last[i] += c.int()
	w.columns[i].set(w.last[i])
}

// fill makes r, which is empty, the event of the row.
func (w *row) fill(r *engine.RawEvent, texts [][]byte) {
	s := &w.r
	r.Kind, r.Thread, r.Image, r.PID, r.Time, r.TID = s.Kind, s.Thread, s.Image, s.PID, s.Time, s.TID
	r.CPU, r.Seq, r.Creator, r.Tracer, r.IDChange, r.Errno, r.Task = s.CPU, s.Seq, s.Creator, s.Tracer, s.IDChange, s.Errno, s.Task
	r.Usage, r.Read, r.Before = s.Usage, s.Read, s.Before
	if r.Kind == engine.KindGap {
		r.SetGap(w.gap)
		r.Time = s.Time
	}
	for i, ref := range w.refs {
		if f := textFields[i]; s.Task.Known.Has(f) {
			r.Set(f, texts[ref])
		}
	}
}
