package witness

import (
	"errors"
	"time"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// Perform lets scenarios that were started do their work while the witnesses, whose
// listeners have been started, listen, and returns what they did.
func Perform(run *scenario.Running, all []*Witness, patience time.Duration) ([]*scenario.Outcome, error) {
	if run.Unread {
		err := Pause(all)
		o, err2 := run.WaitAll(patience)
		Start(all)
		return o, errors.Join(err, err2)
	}
	run.ReadAll = func() error {
		var err error
		for _, l := range Listeners(all) {
			err = errors.Join(err, l.ReadAll())
		}
		return err
	}
	return run.WaitAll(patience)
}
