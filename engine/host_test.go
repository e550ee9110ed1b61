package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

func TestEntityID(t *testing.T) {
	const boot = "0b0d8b4e-3c1f-4b0c-9d55-5a0c5b1f6a11"
	host := engine.Host{BootID: boot}
	of := func(pid uint32, start uint64, h engine.Host) string {
		p := engine.Process{PID: pid}
		p.Known, p.Start = engine.FieldStart.Set(), start
		id, ok := p.EntityID(&h)
		if !ok {
			t.Errorf("pid %d, start %d: got no id", pid, start)
		}
		return id
	}
	// printf '%s %d %d' $boot 4711 1234 | sha256sum | cut -c1-32
	const want = "898a2e3e55707d32b2c678506d120c56"
	if got := of(4711, 12_345_678_901, host); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The proc connector has the start time in ticks.
	if got := of(4711, 12_340_000_000, host); got != want {
		t.Errorf("with a start in ticks: got %s, want %s", got, want)
	}
	others := map[string]bool{want: true}
	for _, other := range []string{
		of(4711, 12_350_000_000, host), of(4712, 12_340_000_000, host), of(471, 112_340_000_000, host),
		of(4711, 12_340_000_000, engine.Host{BootID: strings.Replace(boot, "0", "1", 1)}),
	} {
		if others[other] {
			t.Errorf("two processes have the id %s", other)
		}
		others[other] = true
	}
	var p engine.Process
	if id, ok := p.EntityID(&host); ok {
		t.Errorf("without a start time: got %s, want none", id)
	}
	p.Known = engine.FieldStart.Set()
	if id, ok := p.EntityID(&engine.Host{}); ok {
		t.Errorf("without a boot id: got %s, want none", id)
	}
}

func TestEntityIDInJSON(t *testing.T) {
	clock := &engine.Clock{Host: engine.Host{Name: "a\"b", BootID: "boot", Kernel: "6.1"}}
	parent := engine.Process{PID: 1}
	parent.Known, parent.Start = engine.FieldStart.Set(), 5e9
	p := engine.Process{PID: 7}
	p.Known, p.Start, p.StartUnit = engine.FieldStart.Set(), 6e9, 1
	p.Birth = engine.Birth{Parent: engine.Identity{PID: 1, Start: 5e9}, Known: engine.FieldPPID.Set() | engine.FieldStart.Set()}
	var got struct {
		EntityID string `json:"entity_id"`
		Parent   string `json:"birth_parent_entity_id"`
	}
	if err := json.Unmarshal(p.AppendJSON(nil, clock), &got); err != nil {
		t.Fatal(err)
	}
	own, _ := p.EntityID(&clock.Host)
	parents, _ := parent.EntityID(&clock.Host)
	if got.EntityID != own || got.Parent != parents || own == parents {
		t.Errorf("%+v, want %s and %s", got, own, parents)
	}
	if got := string(p.AppendJSON(nil, new(engine.Clock))); strings.Contains(got, "entity_id") {
		t.Errorf("without a host: got %s", got)
	}
	if got, want := string(clock.Host.AppendJSON(nil)), `{"hostname":"a\"b","boot_id":"boot","kernel":"6.1"}`; got != want {
		t.Errorf("host: got %s, want %s", got, want)
	}
}
