package engine_test

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// The engine with a source that needs no kernel. Package quark has the same with a backend.
func Example() {
	source := enginetest.NewMachine()
	source.Running("/bin/sh").Fork().Exec("/bin/true").Exit(0)
	e, err := engine.New(source, source.Clock(), engine.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for !e.Drained() {
		ev, err := e.Get()
		switch {
		case err == nil:
			fmt.Println(ev.Wall.UTC().Format("15:04:05.000"), ev.Events, ev.Process.Image.Exe)
		case !errors.Is(err, engine.ErrNothing):
			fmt.Println(err)
			return
		}
	}
	// Output: 00:00:01.001 FORK+EXEC+EXIT /bin/true
}
