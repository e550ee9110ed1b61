package exitsnoop

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
)

// Start reports each process of a command, even one that outlives the command, and the usage.
func TestStart(t *testing.T) {
	needKernel(t)
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err) // in a guest
	}
	c, err := Start(exec.Command("sh", "-c", `(sh -c "exit 4"; sleep 0.1; exit 5) & exit 3`))
	ok(t, err)
	defer c.Close()
	var codes []int
	for e, err := range c.Exits(t.Context()) {
		ok(t, err)
		if e.ExitedTime() == 0 || e.ExitedTime() != e.ExittedTime {
			t.Errorf("ended at %d, %d", e.ExitedTime(), e.ExittedTime)
		}
		codes = append(codes, e.WaitStatus().ExitStatus())
	}
	if slices.Sort(codes); !slices.Equal(codes, []int{0, 3, 4, 5}) { // 0 is sleep's
		t.Errorf("exit codes %v", codes)
	}
	used, err := c.Wait()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 3 || used.PeakRSS < 100<<10 || used.CPU < 0 {
		t.Errorf("%v, %+v", err, used)
	}
	left, err := c.Store.Tasks()
	if err != nil || len(left) > 0 {
		t.Errorf("%d are still traced: %v", len(left), err)
	}
	if c, err := Start(exec.Command("/nothing/here")); c != nil || !errors.Is(err, exec.ErrNotFound) && err == nil {
		t.Errorf("a missing command: %v", err)
	}
}
