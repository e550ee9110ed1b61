package trace

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/quark-linux/quark/engine"
)

// header is the first block of a trace.
type header struct {
	Backend      string
	Kernel       string // release
	Fields       string // the names of all fields, as records have only numbers
	Kinds        string
	Start        uint64 // CLOCK_MONOTONIC nanoseconds
	BootOffset   uint64
	Wall         time.Time
	WallError    time.Duration
	Capabilities *engine.CapabilityTable
	Host         engine.Host `json:",omitzero"`
}

const (
	blockSize  = 128 << 10 // a block is written when it has this length
	maxBlock   = 1 << 20   // no block is longer
	maxText    = 32 << 10  // no text is longer: sources truncate texts to 20 KiB
	blockAge   = uint64(time.Second)
	maxKept    = 1 << 20 // bytes of texts that are kept for later blocks
	maxKeptLen = 256     // bytes of each text
)

// noBlock is the head of a block of length 0, which ends a trace.
var noBlock [8]byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a trace. It is an [engine.Recorder], for one engine. A block is written when it is
// full, or at the first read of the source that is 1 s after the block's first record. If the
// program is killed, the trace lacks the events of the unwritten block.
type Writer struct {
	to     io.Writer
	err    error // the first error; it ends writing
	source engine.Source
	clock  *engine.Clock
	offset uint64 // From of the newest written offset
	zstd   *zstd.Encoder
	row    *row
	block  []byte
	out    []byte             // the block as written
	began  uint64             // when the block began
	read   uint64             // when the source was read; 0 before
	stats  engine.SourceStats // the last written counters

	// Each block numbers its texts anew. texts maps a text to an index of uses, so that a text
	// of an earlier block is found without allocating a string.
	texts   map[string]int
	uses    []use
	kept    int // bytes in texts
	blocks  uint32
	inBlock uint64 // number of texts in the block
}

// use is the number that a text has in a block.
type use struct {
	block  uint32
	number uint64
}

// NewWriter returns a writer of a trace. The caller closes w after [Writer.Close].
func NewWriter(w io.Writer) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(maxBlock), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("begin trace: %w", err)
	}
	return &Writer{to: w, zstd: enc, row: newRow(), texts: make(map[string]int)}, nil
}

// Begin implements engine.Recorder.
func (w *Writer) Begin(source engine.Source, clock *engine.Clock) {
	w.source, w.clock, w.offset = source, clock, clock.Newest().From
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // absent on other systems
	if t, ok := source.(*Reader); ok {
		release = []byte(t.Kernel())
	}
	host := clock.Host
	host.Kernel = "" // Kernel of the header has it
	o := clock.Newest()
	h, err := json.Marshal(&header{
		Backend: source.Name(), Kernel: strings.TrimSpace(string(release)), Fields: engine.AllFields.String(), Kinds: kinds(),
		Start: clock.Now(), BootOffset: o.Boot, Wall: o.Wall, WallError: o.WallError, Capabilities: source.Capabilities(),
		Host: host,
	})
	w.fail(err)
	w.write([]byte(firstLine))
	w.writeBlock(h)
}

func kinds() string {
	all := engine.Events(0)
	for k := range engine.Kind(engine.NumKinds) {
		all |= k.Events()
	}
	return all.String()
}

// Read implements engine.Recorder.
func (w *Writer) Read(now uint64) {
	if len(w.block) > 0 && now-w.began >= blockAge {
		w.flush()
	}
	w.read = now
}

// Record implements engine.Recorder.
func (w *Writer) Record(r *engine.RawEvent) {
	if len(w.block) >= blockSize {
		w.flush()
	}
	if len(w.block) == 0 {
		w.began = w.read
	}
	if w.row.at != w.read {
		w.block = binary.AppendUvarint(w.block, readRecord)
		w.block = binary.AppendUvarint(w.block, w.read-w.row.at)
		w.row.at = w.read
	}
	if o := w.clock.Newest(); o.From != w.offset {
		w.offset = o.From
		w.block = appendOffset(w.block, o)
	}
	w.block = w.row.append(w.block, r, w.number)
}

// number returns the number of a text in the block, and whether the text is new in it.
func (w *Writer) number(text []byte) (n uint64, added bool) {
	if len(text) > maxText {
		w.fail(fmt.Errorf("text of %d bytes is too long", len(text)))
	}
	i, known := w.texts[string(text)]
	if known && w.uses[i].block == w.blocks {
		return w.uses[i].number, false
	}
	n = w.inBlock
	w.inBlock++
	if !known && len(text) <= maxKeptLen {
		i, known = len(w.uses), true
		w.texts[string(text)] = i
		w.uses = append(w.uses, use{})
		w.kept += len(text)
	}
	if known {
		w.uses[i] = use{w.blocks, n}
	}
	return n, true
}

// flush ends the block with the source's counters and writes it. Empty blocks are skipped, so that
// re-recording a replay produces the same file: the trace lacks the time of the last read of the
// source.
func (w *Writer) flush() {
	stats, err := w.source.Stats()
	w.fail(err)
	if len(w.block) == 0 && stats == w.stats {
		return
	}
	w.stats = stats
	b := binary.AppendUvarint(w.block, statsRecord)
	b = binary.AppendUvarint(b, stats.Produced)
	b = binary.AppendUvarint(b, uint64(len(stats.Lost)))
	for _, n := range stats.Lost {
		b = binary.AppendUvarint(b, n)
	}
	bound := uint64(0)
	if stats.Bound {
		bound = 1
	}
	b = binary.AppendUvarint(b, bound)
	if stats.Unread|stats.Blocked != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, stats.Unread), stats.Blocked)
	}
	w.writeBlock(b)
	w.block, w.inBlock = b[:0], 0
	w.row.reset()
	w.blocks++
	if w.kept > maxKept {
		clear(w.texts)
		w.uses, w.kept = w.uses[:0], 0
	}
}

func (w *Writer) writeBlock(b []byte) {
	if len(b) > maxBlock {
		w.fail(fmt.Errorf("block of %d bytes is too long", len(b)))
	}
	w.out = w.zstd.EncodeAll(b, append(w.out[:0], noBlock[:]...))
	binary.LittleEndian.PutUint32(w.out, uint32(len(w.out)-8))
	binary.LittleEndian.PutUint32(w.out[4:], crc32.Checksum(w.out[8:], castagnoli))
	w.write(w.out)
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, err := w.to.Write(b)
		w.fail(err)
	}
}

func (w *Writer) fail(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("write trace: %w", err)
	}
}

// Err returns the first write error. After an error no more is written.
func (w *Writer) Err() error { return w.err }

// Close writes the remaining events and the end of the trace. It returns the first error of the
// writer. The source must still be open.
func (w *Writer) Close() error {
	if w.source != nil {
		w.flush()
		// The copy of a truncated trace has no end either.
		if t, ok := w.source.(*Reader); !ok || t.Torn() == nil {
			w.write(noBlock[:])
		}
		w.source = nil
	}
	w.fail(w.zstd.Close())
	return w.err
}
