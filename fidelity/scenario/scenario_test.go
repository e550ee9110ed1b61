package scenario

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// Each scenario does its work, on this kernel, without a monitor.
func TestScenariosDoTheirWork(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			r, err := Start(s)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.Wait(20 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			o := all[0]
			if o.Skip != "" {
				t.Skip(o.Skip)
			}
			if len(o.Lives) == 0 {
				t.Fatal("nothing was recorded")
			}
			if testing.Verbose() {
				for _, l := range o.Lives {
					for _, e := range l.Events {
						t.Logf("%d %s %v +%d", l.PID, e.Kind, e.State.Told, e.Latest-e.Earliest)
					}
				}
			}
		})
	}
}
