package watch

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/ecs"
	"github.com/quark-linux/quark/export/output"
)

// Exporters open what is not linked into quark-mon.
type Exporters struct {
	// Metrics serves the counters of a queue, and of others, at an address.
	Metrics func(address string, q *quark.Queue, o quark.Options, others []export.Counter) (Exporter, error)
	// OTLP sends events to a collector of OpenTelemetry. names may be nil.
	OTLP func(url string, q *quark.Queue, names *quark.Names, report func(error)) (Exporter, export.Counter, error)
}

// Exporter gets each event, before the next Get. String says where it exports to.
type Exporter interface {
	fmt.Stringer
	Export(*quark.Event)
	// Close ends it, in a bounded time, with what the user has to know of.
	Close() error
}

// exporting is what a monitor exports.
type exporting struct {
	exporters []Exporter
	counters  []export.Counter
	output    *output.Output // nil: lines go to standard output
	told      sync.Once
}

// exports reports whether something is asked for that quark-export has.
func (o *options) exports() bool { return o.metrics != "" || o.otlp != "" }

// checkExports returns what of the options for exporters can't be.
func (o *options) checkExports() error {
	for option, target := range map[string]string{"otlp": o.otlp, "output": o.outputTo} {
		_, rest, remote := strings.Cut(target, "://")
		if !remote || !o.drop {
			continue
		}
		host, _, _ := strings.Cut(rest, "/")
		if _, err := netip.ParseAddrPort(host); err != nil {
			return fmt.Errorf("--%s %s with -D: no name can be looked up in an empty root directory, give address and port", option, target)
		}
	}
	if o.outputTo == "" && (o.rotateSize != 0 || o.rotating.RotateEvery != 0 || o.rotating.Keep != 0) {
		return errors.New("--rotate-size, --rotate-every and --keep have a meaning only with --output FILE: leave them out")
	}
	if o.rotating.Keep != 0 && o.rotateSize == 0 && o.rotating.RotateEvery == 0 {
		return errors.New("--keep has a meaning only with --rotate-size or --rotate-every: add one, or leave it out")
	}
	switch logs := o.outputTo == "journald" || o.outputTo == "syslog" || strings.HasPrefix(o.outputTo, "syslog+"); {
	case logs && !o.json && !o.ecs:
		return fmt.Errorf("--output %s: needs -j or --ecs, which make one line of an event", o.outputTo)
	case !logs && o.outputTo != "" && o.drop:
		return fmt.Errorf("--output %s with -D: a file can be renamed, or begun anew, only with the root directory: leave one out", o.outputTo)
	}
	if o.rotating.RotateEvery < 0 || o.rotating.Keep < 0 {
		return errors.New("--rotate-every and --keep: must not be below 0")
	}
	o.rotating.RotateSize = int64(o.rotateSize)
	return nil
}

// byteSize is the value of --rotate-size: bytes, or with K, M or G a multiple.
type byteSize int64

func (s *byteSize) Set(text string) error {
	digits, unit := text, int64(1)
	for i, letter := range []string{"K", "M", "G"} {
		if rest, ok := strings.CutSuffix(text, letter); ok {
			digits, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1<<62/unit {
		return fmt.Errorf("%q is no size: give bytes above 0, or with K, M or G", text)
	}
	*s = byteSize(n * unit)
	return nil
}

func (s *byteSize) String() string { return strconv.FormatInt(int64(*s), 10) }

func (s *byteSize) Type() string { return "size" }

// openOutput opens what --output names.
func (m *monitor) openOutput(errw io.Writer) (err error) {
	if m.outputTo == "" {
		return nil
	}
	o := m.rotating
	o.Report = func(err error) { reportTo(errw, m.outputTo, err) }
	o.Gap = m.gapLine
	if err := m.unused(m.outputTo); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if m.output, err = output.Open(m.outputTo, o); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	m.counters = append(m.counters, m.output)
	return nil
}

// gapLine is the line that says that lines are missing, in the form of the others.
func (m *monitor) gapLine(count uint64, from, to time.Time) []byte {
	const form = time.RFC3339Nano
	switch {
	case m.ecs != nil:
		return append(ecs.AppendDropped(nil, count, from, to), '\n')
	case m.json:
		return fmt.Appendf(nil, `{"dropped":{"count":%d,"from":%q,"to":%q}}`+"\n", count, from.UTC().Format(form), to.UTC().Format(form))
	}
	return fmt.Appendf(nil, "*** %d events were dropped from %s to %s\n", count, from.Format(form), to.Format(form))
}

const exportProgram = "quark-export"

// program is the name of the command, for its help, its version and its completion.
func program() string {
	if filepath.Base(os.Args[0]) == exportProgram {
		return exportProgram
	}
	return "quark-mon"
}

// becomeExport makes this process quark-export, with the same arguments.
func becomeExport() error {
	if program() == exportProgram {
		return fmt.Errorf("%s is a program without exporters: make build, or go install, makes the right one", os.Args[0])
	}
	path, err := findExport()
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ()))
}

// findExport looks beside this program, then in PATH.
func findExport() (string, error) {
	self, err := os.Executable()
	if err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), exportProgram)
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(exportProgram)
	if err != nil {
		return "", fmt.Errorf("--metrics and --otlp need %s, which is neither beside %s nor in PATH: "+
			"go install github.com/quark-linux/quark/cmd/%[1]s@latest, or make build", exportProgram, self)
	}
	return path, nil
}

// openExporters opens what the options ask for. What the others count is among the metrics.
func (m *monitor) openExporters(from *Exporters, errw io.Writer) error {
	if err := m.openOutput(errw); err != nil {
		return err
	}
	if m.otlp != "" {
		e, c, err := from.OTLP(m.otlp, m.q, m.known, func(err error) { reportTo(errw, "otlp", err) })
		if err != nil {
			return fmt.Errorf("--otlp %s: %w", m.otlp, err)
		}
		m.exporters, m.counters = append(m.exporters, e), append(m.counters, c)
	}
	if m.metrics == "" {
		return nil
	}
	e, err := from.Metrics(m.metrics, m.q, m.Queue, m.counters)
	if err != nil {
		return fmt.Errorf("--metrics %s: %w", m.metrics, err)
	}
	m.exporters = append(m.exporters, e)
	return nil
}

// reportTo says that an exporter's target fails, or with nil that it works again.
func reportTo(w io.Writer, name string, err error) {
	if err == nil {
		err = errors.New("works again")
	}
	fmt.Fprintf(w, "quark-mon: %s: %v\n", name, err)
}

// export hands an event to the exporters.
func (m *monitor) export(ev *quark.Event) {
	for _, e := range m.exporters {
		e.Export(ev)
	}
}

// closeExporters ends them, and prints what each did, also one that could not be ended in order.
func (m *monitor) closeExporters(errw io.Writer) error {
	var errs []error
	for _, e := range m.exporters {
		errs = append(errs, e.Close())
	}
	if m.output != nil {
		errs = append(errs, m.output.Close())
	}
	m.tellExports(errw)
	return errors.Join(errs...)
}

// tellExports prints what each exporter did, once. It may be called from any goroutine.
func (m *monitor) tellExports(errw io.Writer) {
	m.told.Do(func() { io.WriteString(errw, m.exportLines()) })
}

// statusDropped is the exit status of a monitor with which nothing was wrong but that events were
// dropped. It is not that of a Go program that panics, which is 2.
const statusDropped = 3

// droppedError says that exporters have not delivered all events that they were given.
type droppedError struct{ dropped, taken uint64 }

func (e *droppedError) Error() string {
	return fmt.Sprintf("%d of %d events were not delivered to their targets: the lines above say why", e.dropped, e.taken)
}

// dropped returns an error if events were dropped, or left behind, by any exporter.
func (m *monitor) dropped() error {
	e := new(droppedError)
	for _, c := range m.counters {
		n := c.Counts()
		e.dropped += n.Lost() + n.Queued
		e.taken += n.Taken
	}
	if e.dropped == 0 {
		return nil
	}
	return e
}

// exportLines returns what each exporter did, a line for each.
func (m *monitor) exportLines() string {
	var b strings.Builder
	for _, c := range m.counters {
		n := c.Counts()
		fmt.Fprintf(&b, "%s: %d events, %d delivered", c.Name(), n.Taken, n.Delivered)
		for _, cause := range n.Causes() {
			if d := n.Dropped[cause]; d > 0 {
				fmt.Fprintf(&b, ", dropped: %s %d", cause, d)
			}
		}
		if n.Queued > 0 {
			fmt.Fprintf(&b, ", left behind %d", n.Queued)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
