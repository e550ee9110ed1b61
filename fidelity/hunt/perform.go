package hunt

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Performance is what became of scripts that were performed once.
type Performance struct {
	Lives, Events int // performed, and judged of all queues
	Lost          uint64
	// Unexplained is what is missing and was not counted as lost, or was counted otherwise.
	Unexplained []string
	Lies        map[string][]string // all findings, by backend
}

// Series performs scripts, again and again, while queues listen that stay open.
type Series struct {
	Witnesses []*witness.Witness // their listeners have been started
	Dir       string             // for the files of scripts
	// Patience limits a performance and the delivery of its last events.
	Patience time.Duration

	settled map[*witness.Listener]engine.SourceStats
}

// Perform performs scripts once, and judges what was delivered since the last time. The listeners
// run again when it returns.
func (s *Series) Perform(scripts []*script.Script) (*Performance, error) {
	t := &trial{Patience: s.Patience, earlier: s.settled, before: make(map[*witness.Listener]engine.SourceStats)}
	if err := t.write(s.Dir, scripts); err != nil {
		return nil, err
	}
	for _, l := range witness.Listeners(s.Witnesses) {
		now, err := l.Queue.Stats()
		if err != nil {
			return nil, err
		}
		t.before[l] = now.Source
	}
	r := new(result)
	outcomes, err := t.start(s.Witnesses)()
	if err != nil {
		return nil, err
	}
	if err := t.settle(r, s.Witnesses, outcomes); err != nil {
		return nil, err
	}
	s.settled = t.settled
	for _, w := range s.Witnesses {
		if err := t.judge(r, w, outcomes); err != nil {
			return nil, err
		}
		w.Forget()
	}
	witness.Start(s.Witnesses)
	p := &Performance{Lives: r.Lives, Events: r.Events, Lost: r.Lost, Unexplained: r.Unexplained, Lies: make(map[string][]string)}
	for _, l := range r.Lies {
		p.Lies[l.Backend] = append(p.Lies[l.Backend], l.Findings...)
	}
	return p, nil
}

// write writes the scripts into files.
func (t *trial) write(dir string, scripts []*script.Script) error {
	for i, s := range scripts {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(s.String()), 0o644); err != nil {
			return err
		}
		t.Scripts = append(t.Scripts, path)
	}
	return nil
}
