package watch

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
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
}

// exports reports whether something is asked for that quark-export has.
func (o *options) exports() bool { return o.metrics != "" || o.otlp != "" }

// checkExports returns what of the options for exporters can't be.
func (o *options) checkExports() error {
	if o.otlp == "" {
		return nil
	}
	u, err := url.Parse(o.otlp)
	if err != nil {
		return fmt.Errorf("--otlp: %w", err)
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && o.drop {
		return fmt.Errorf("--otlp %s with -D: no name can be looked up in an empty root directory, give the address", o.otlp)
	}
	return nil
}

const exportProgram = "quark-export"

// becomeExport makes this process quark-export, with the same arguments.
func becomeExport() error {
	if filepath.Base(os.Args[0]) == exportProgram {
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
	e, err := from.Metrics(m.metrics, m.q, m.queue, m.counters)
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

// closeExporters ends them. A second call does nothing.
func (m *monitor) closeExporters() error {
	var errs []error
	for _, e := range m.exporters {
		errs = append(errs, e.Close())
	}
	m.exporters = nil
	return errors.Join(errs...)
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
		b.WriteByte('\n')
	}
	return b.String()
}
