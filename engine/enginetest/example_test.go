//go:build linux

package enginetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

var (
	servers = map[string]bool{"/usr/sbin/nginx": true, "/usr/sbin/apache2": true}
	shells  = map[string]bool{"/bin/sh": true, "/bin/bash": true, "/usr/bin/dash": true}
)

// webShells prints each shell that a web server has started. Process.Birth is the process that
// forked the shell, even if it has exited and the shell has another parent. A process stays in the
// table for Options.CacheGraceTime after its exit.
func webShells(ctx context.Context, q *quark.Queue) error {
	for ev, err := range q.Events(ctx) {
		if err != nil {
			return err
		}
		p := ev.Process
		if !ev.Events.Has(quark.EventExec) || !p.Known.Has(quark.FieldExe) || !shells[p.Image.Exe] {
			continue
		}
		by := q.LookupIdentity(p.Birth.Parent)
		if by != nil && by.Known.Has(quark.FieldExe) && servers[by.Image.Exe] {
			fmt.Printf("%s %d of %s %d (ended: %v), parent %d\n", p.Image.Exe, p.PID, by.Image.Exe, by.PID, by.Exited, p.PPID)
		}
	}
	return nil
}

// The example finds a shell that a web server spawned, even if the web server's worker has exited.
func Example() {
	m := enginetest.NewMachine()
	m.Running("/usr/sbin/sshd").Fork().Exec("/bin/sh") // not from a web server
	nginx := m.Running("/usr/sbin/nginx")
	worker := nginx.Fork().SetUID(33)
	worker.Fork().Exec("/bin/sh", "-c", "id").Exit(0)

	orphan := worker.Fork()
	m.Sleep(2 * time.Second) // longer than the hold time
	worker.Exit(0)
	m.Sleep(2 * time.Second)
	orphan.Exec("/bin/bash", "-i")

	q, err := quark.New(m, quark.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	if err := webShells(context.Background(), q); err != nil {
		fmt.Println(err)
	}
	// Output:
	// /bin/sh 6 of /usr/sbin/nginx 5 (ended: false), parent 5
	// /bin/bash 7 of /usr/sbin/nginx 5 (ended: true), parent 1
}

// The events of a machine are joined according to their times.
func ExampleMachine() {
	m := enginetest.NewMachine()
	p := m.Running("/bin/sh").Fork().Exec("/usr/bin/make").SetComm("make all")
	m.Sleep(time.Hour)
	p.SetUID(1000).SetGID(1000).SetSID()
	m.Miss(quark.LossRingFull, 3)
	p.Fork().Kill(9)
	p.Exit(2)

	q, err := quark.New(m, quark.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	for ev, err := range q.Events(context.Background()) {
		switch p := ev.Process; {
		case err != nil:
			fmt.Println(err)
		case ev.Events.Has(quark.EventGap):
			fmt.Println(ev.Events, ev.Gap.Cause, ev.Gap.Count)
		default:
			fmt.Println(ev.Events, p.Comm, p.Cred.UID, p.SID, p.Exit.Code(), p.Exit.Signal())
		}
	}
	// Output:
	// FORK+EXEC+SETPROCTITLE make all 0 2 0 0
	// ID_CHANGE make all 1000 3 0 0
	// GAP ring_full 3
	// FORK+EXIT make all 1000 3 0 9
	// EXIT make all 1000 3 2 0
}
