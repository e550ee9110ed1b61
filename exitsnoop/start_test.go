package exitsnoop

import (
	"errors"
	"fmt"
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
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 3 || used.PeakRSS != 0 || used.CPU < 0 {
		t.Errorf("got error %v, usage %+v, want exit code 3, unknown peak memory", err, used)
	}
	left, err := c.Store.Tasks()
	if err != nil || len(left) > 0 {
		t.Errorf("%d are still traced: %v", len(left), err)
	}
	const block = 200 << 20
	big, err := Start(exec.Command("dd", "if=/dev/zero", "of=/dev/null", fmt.Sprint("bs=", block), "count=1"))
	ok(t, err)
	defer big.Close()
	if used, err := big.Wait(); err != nil || used.PeakRSS < block || used.PeakRSS > 2*block {
		t.Errorf("dd: got error %v, usage %+v, want peak memory of at least %d", err, used, block)
	}
	if c, err := Start(exec.Command("/nothing/here")); c != nil || !errors.Is(err, exec.ErrNotFound) && err == nil {
		t.Errorf("a missing command: %v", err)
	}
}
