package quark_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// Print the commands that run during the next ten seconds, and how they end.
func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // says what is missing: a privilege, a kernel option
		return
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ev, err := range q.Events(ctx) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		p := ev.Process
		if exe, known := p.Exe(); known && ev.Events.Has(quark.EventExec) {
			fmt.Printf("%v: process %d executes %s\n", ev.Wall, p.PID, exe)
		}
		if ev.Events.Has(quark.EventExit) && p.Known.Has(quark.FieldExit) {
			fmt.Printf("%v: process %d ends with code %d, signal %d\n", ev.Wall, p.PID, p.Exit.Code(), p.Exit.Signal())
		}
	}
}

// show prints the events of a queue until its source ends.
func show(q *quark.Queue, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		exe, _ := ev.Process.Exe()
		fmt.Println(ev.Events, "of", exe)
	}
}

// Test a program without a kernel: the events come from a simulated machine.
func ExampleNew() {
	m := enginetest.NewMachine()
	shell := m.Running("/bin/sh")
	shell.Fork().Exec("/bin/false").Exit(1)
	m.Sleep(time.Hour)
	shell.SetUID(1000)
	show(quark.New(m, quark.Options{}))
	// Output:
	// FORK+EXEC+EXIT of /bin/false
	// ID_CHANGE of /bin/sh
}

// Report escapes from containers: a process that enters the mount namespace of init from another
// one. The link /proc/1/ns/mnt shows the number.
func ExampleParseFilter_containerEscape() {
	where, err := quark.ParseFilter("ns_changed == mnt and mnt_ns == 4026531841")
	if err != nil {
		fmt.Println(err)
		return
	}
	m := enginetest.NewMachine()
	shell := m.Running("/usr/bin/runc").Fork().SetMntNS(4026532500).Exec("/bin/sh")
	shell.Fork().Exec("/usr/bin/nsenter").SetMntNS(4026531841)
	shell.Fork().Exec("/usr/bin/unshare").SetMntNS(4026532600)
	show(quark.New(m, quark.Options{Where: where}))
	// Output:
	// NS_CHANGE of /usr/bin/nsenter
}

// Report only programs below /tmp that users other than root execute.
func ExampleParseFilter() {
	where, err := quark.ParseFilter(`exec and uid != 0 and exe ~ "/tmp/**"`)
	if err != nil {
		fmt.Println(err) // has the line, the column and the remedy
		return
	}
	m := enginetest.NewMachine()
	user := m.Running("/bin/login").Fork().SetUID(1000)
	user.Fork().Exec("/tmp/build/a.out").Exit(0)
	user.Fork().Exec("/bin/ls").Exit(0)
	m.Running("/bin/sh").Fork().Exec("/tmp/install").Exit(0)
	show(quark.New(m, quark.Options{Where: where}))

	_, err = quark.ParseFilter("exec and uid < 0")
	fmt.Println(err)
	// Output:
	// FORK+EXEC+EXIT of /tmp/build/a.out
	// line 1, column 16: nothing is below 0
}
