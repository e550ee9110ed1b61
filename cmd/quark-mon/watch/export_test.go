package watch

import (
	"errors"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
)

// stuck is an exporter whose end fails.
type stuck struct{}

func (stuck) Export(*quark.Event) {}

func (stuck) Close() error { return errors.New("it does not end") }

func (stuck) String() string { return "nothing" }

func (stuck) Name() string { return "stuck" }

func (stuck) Counts() export.Counts {
	return export.Counts{Taken: 10, Delivered: 1, Queued: 4, Dropped: map[string]uint64{"queue_full": 5, "ended": 0}}
}

// What became of events is told also of an exporter that can't be ended.
func TestStuckExporter(t *testing.T) {
	m := &monitor{exporting: exporting{exporters: []Exporter{stuck{}}, counters: []export.Counter{stuck{}}}}
	var told strings.Builder
	if err := m.closeExporters(&told); err == nil {
		t.Error("no error")
	}
	if got, want := told.String(), "stuck: 10 events, 1 delivered, dropped: queue_full 5, left behind 4\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// balanced is an exporter that has delivered all.
type balanced struct{ stuck }

func (balanced) Counts() export.Counts {
	return export.Counts{Taken: 10, Delivered: 10, Dropped: map[string]uint64{"queue_full": 0}}
}

// What was not delivered is an error of its own, with which the command ends.
func TestDropped(t *testing.T) {
	m := &monitor{exporting: exporting{counters: []export.Counter{balanced{}}}}
	if err := m.dropped(); err != nil {
		t.Errorf("all was delivered: %v", err)
	}
	m.counters = append(m.counters, stuck{})
	if err, want := m.dropped(), "9 of 20 events were not delivered to their targets: the lines above say why"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
