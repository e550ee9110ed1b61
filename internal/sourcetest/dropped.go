package sourcetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

// Dropped is for a child that has opened a source: it gives up its privileges
// and its root, ends the line that it is writing, and when told so says what
// the source saw. WantDropped is its parent's part.
func Dropped(s engine.Source) {
	Try("chroot", unix.Chroot(os.TempDir()))
	Try("chdir", unix.Chdir("/"))
	Try("setresgid", syscall.Setresgid(65534, 65534, 65534))
	Try("setresuid", syscall.Setresuid(65534, 65534, 65534))
	for !s.Arm(true) {
		Try("populate", s.Populate(engine.NewBuffer(1000)))
	}
	fmt.Println()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 5000)
		if n == 1 {
			break
		}
		if err != unix.EINTR {
			Try("poll", fmt.Errorf("woke %d: %v", n, err))
		}
	}
	fmt.Scanln()
	b := engine.NewBuffer(1000)
	Try("populate", s.Populate(b))
	st, err := s.Stats()
	Try("stats", err)
	fmt.Println(b.Len(), st.Produced)
}

// WantDropped starts a child that calls Dropped and wants it to see a process.
// It returns the child, which still runs unless it ended by itself, and what it
// said before Dropped.
func WantDropped(t testing.TB, program string) (c *exec.Cmd, said string) {
	t.Helper()
	c = Child(program)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child ended")
	}
	said = lines.Text()
	Child("exit").Run()
	time.Sleep(10 * time.Millisecond) // as in Run
	fmt.Fprintln(in)
	if !lines.Scan() {
		t.Fatal("the child ended")
	}
	var seen, produced int
	if n, err := fmt.Sscan(lines.Text(), &seen, &produced); n != 2 || seen < 3 || produced < seen {
		t.Errorf("saw and produced %q: %v", lines.Text(), err)
	}
	return c, said
}
