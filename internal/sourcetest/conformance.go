package sourcetest

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// Options are the choices that a source has to offer; zero is the default.
type Options struct {
	Threads     bool
	KernelTypes *btf.Spec // instead of the running kernel's own
}

// Conformance are the tests that every source must pass that reads all fields
// in the kernel, at the time of the event. The numbers say where such a source
// has its limits with processes that have ended when their events are read, so
// that /proc can't help.
type Conformance struct {
	// Open opens a source that is closed at the end of the test, or skips it.
	Open func(t testing.TB, o Options) Source

	// WholePaths are how many directories below a temporary one a working
	// directory can be and still be told whole. That at CutPath is too deep,
	// and at least its last CutPathNames must be told.
	WholePaths            []int
	CutPath, CutPathNames int

	// LongNamesPath is how much of the path of a working directory must be told
	// whose last 15 names have 250 bytes each, in bytes.
	LongNamesPath int

	// Arguments is how much of the arguments is told, in bytes.
	Arguments int

	// ThreadsMayBeLost says that the ends of threads of one process that end at
	// the same moment may be lost, but counted.
	ThreadsMayBeLost bool
}

// Test runs all of them, each on a source of its own.
func (c Conformance) Test(t *testing.T) {
	c.Open(t, Options{}).Close() // where none can be opened, that is the reason to skip all
	for _, test := range []struct {
		name string
		f    func(Conformance, *testing.T)
	}{
		{"Capabilities", Conformance.capabilities},
		{"KernelTypes", Conformance.kernelTypes},
		{"Process", Conformance.process},
		{"ExitStatus", Conformance.exitStatus},
		{"LeaderExitsFirst", Conformance.leaderExitsFirst},
		{"ExecFromThread", Conformance.execFromThread},
		{"EndTogether", Conformance.endTogether},
		{"Threads", Conformance.threads},
		{"IDChange", Conformance.idChange},
		{"SetFSUID", Conformance.setFSUID},
		{"Rename", Conformance.rename},
		{"WorkingDirectory", Conformance.workingDirectory},
		{"TooDeepDirectory", Conformance.tooDeepDirectory},
		{"LongNames", Conformance.longNames},
		{"Mounts", Conformance.mounts},
		{"Chroot", Conformance.chroot},
		{"Memfd", Conformance.memfd},
		{"Arguments", Conformance.arguments},
		{"Alive", Conformance.alive},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(c, t) })
	}
}

func (c Conformance) capabilities(t *testing.T) {
	table := c.Open(t, Options{}).Capabilities()
	for k, how := range table.Kinds {
		t.Log(engine.Kind(k), how)
	}
	for f, how := range table.Fields {
		t.Log(engine.Field(f), how)
		if how.Via == "" {
			t.Errorf("%v: no reason", engine.Field(f))
		}
	}
	t.Log(strings.Join(table.Notes, "; "))
}

// kernelTypes opens with types from outside.
func (c Conformance) kernelTypes(t *testing.T) {
	types, err := btf.LoadSpec(btfhub.KernelBTF)
	if err != nil {
		t.Skip(err)
	}
	s := c.Open(t, Options{KernelTypes: types})
	cmd := Child("truth")
	out, evs := Run(t, s, cmd)
	WantTruth(t, evs.One(t, cmd.Process.Pid, engine.KindExec), ParseTruth(t, out))
}
