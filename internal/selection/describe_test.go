package selection

import (
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// limitedSource is a source that lacks some kinds of events.
type limitedSource struct{ quark.Source }

func (limitedSource) Capabilities() *quark.CapabilityTable {
	table := new(quark.CapabilityTable)
	for k := range table.Kinds {
		table.Kinds[k] = quark.Capability{Origin: quark.OriginKernel}
	}
	for _, k := range []quark.Kind{quark.KindIDChange, quark.KindPtrace} {
		table.Kinds[k] = quark.Capability{Via: "needs CAP_SYS_ADMIN"}
	}
	for f := range table.Fields {
		table.Fields[f] = quark.Capability{Origin: quark.OriginKernel}
	}
	table.Fields[quark.FieldIO], table.Fields[quark.FieldEnviron] = quark.Capability{}, quark.Capability{}
	table.Fields[quark.FieldExe], table.Fields[quark.FieldCwd] = quark.Capability{Origin: quark.OriginProc}, quark.Capability{Origin: quark.OriginProc}
	table.Kinds[quark.KindExecFailed] = quark.Capability{Via: "needs a tracepoint"}
	return table
}

func TestDescribe(t *testing.T) {
	q, err := quark.New(limitedSource{enginetest.NewMachine()}, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	backend := "backend " + q.Backend()
	for want, o := range map[string]Options{
		backend + ", no ID_CHANGE and PTRACE: needs CAP_SYS_ADMIN, no io, 2 fields only from /proc":          {live: true},
		backend + ", no EXEC_FAILED: needs a tracepoint":                                                     {live: true, Queue: quark.Options{Kinds: quark.EventExec, FailedExecs: true}},
		backend + ", no ID_CHANGE and PTRACE: needs CAP_SYS_ADMIN, no io, environ, 2 fields only from /proc": {live: true, Queue: quark.Options{Environ: quark.Environ{Names: []string{"A"}}}},
		backend + ", fewer fields of other processes: /proc hides them": {
			live: true, hidden: "processes: /proc hides them", Queue: quark.Options{Kinds: quark.EventExec}},
		backend: {},
	} {
		if got := o.Describe(q); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
