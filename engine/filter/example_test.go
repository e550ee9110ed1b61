package filter_test

import (
	"fmt"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/filter"
)

// The filter selects programs below /tmp that users other than root execute. Package quark has the
// same as ParseFilter, for Options.Where.
func Example() {
	f, err := filter.Parse(`exec and uid != 0 and exe ~ "/tmp/**"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := f.Matcher(new(engine.Clock))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &engine.Process{Image: engine.Image{Exe: "/tmp/build/a.out"}}
	p.Cred.UID = 1000
	ev := &engine.Event{Events: engine.EventFork | engine.EventExec, Process: p}
	p.Known = engine.SetOf(engine.FieldExe)
	fmt.Println(m.Judge(ev) == engine.VerdictUnsure)
	p.Known = engine.SetOf(engine.FieldExe, engine.FieldUIDs)
	fmt.Println(m.Judge(ev) == engine.VerdictPass)

	_, err = filter.Parse("exec and uid < 0")
	fmt.Println(err)
	// Output:
	// true
	// true
	// line 1, column 16: nothing is below 0
}
