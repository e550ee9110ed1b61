package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Env is the variable that makes a program which calls Main a process of a scenario.
// The arguments are free for the scenarios.
const Env = "QUARK_FIDELITY"

// The descriptors that the processes of a scenario have, high enough that no other
// is in the way.
const (
	truthFD = 201 // records are written here
	procFD  = 202 // /proc
	goFD    = 203 // a byte can be read here when the process may go on
	readyFD = 204 // a byte is written here when the process is ready
)

// separator stands between the names of scenarios, which may have commas.
const separator = ";"

func init() {
	// Before any other goroutine runs: a scenario is performed by the main thread, whose
	// comm, ids and namespaces are those of the process.
	if os.Getenv(Env) != "" {
		runtime.LockOSThread()
	}
}

// scale returns how often something is done: less often in a guest, which may be
// emulated and slow.
func scale(host, guest int) int {
	if os.Getenv("QUARK_INITRAMFS") == "1" {
		return guest
	}
	return host
}

// Main does not return if this process was started for a scenario.
func Main() {
	v := os.Getenv(Env)
	if v == "" {
		return
	}
	role, arg, _ := strings.Cut(v, ":")
	if role == "run" {
		direct(strings.Split(arg, separator))
	}
	if role == "worker" {
		err := worker(strings.Split(arg, ":"))
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", Env, v, err)
		os.Exit(2)
	}
	if err := image(role, strings.Split(arg, ":")); err != nil {
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", Env, v, err)
		write(truth.Record{Op: truth.Fail, Reason: fmt.Sprintf("%s: %v", v, err)})
		os.Exit(2)
	}
}

// role is the environment of this program when a scenario executes it. It reports, and
// then, by name:
//
//	report  ends with the code
//	chain   executes itself, as often as more says, before it ends
//	threads starts as many threads as more says before it ends
func role(name string, code, more int) []string {
	return []string{fmt.Sprintf("%s=%s:%d:%d", Env, name, code, more)}
}

// image does what a role says.
func image(name string, args []string) error {
	if len(args) != 2 {
		return errors.New("not a role")
	}
	code, err1 := strconv.Atoi(args[0])
	more, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := report(truth.Exec); err != nil {
		return err
	}
	switch name {
	case "report":
	case "chain":
		if more > 0 {
			argv := []string{"chain", strconv.Itoa(more)}
			return unix.Exec("/proc/self/exe", argv, role("chain", code, more-1))
		}
	case "threads":
		startThreads(more)
	default:
		return errors.New("not a role")
	}
	os.Exit(code)
	return nil
}

// report records what this process is.
func report(op truth.Op) error {
	before := truth.Clock()
	pid, s, err := truth.Proc{FD: procFD}.Read("self")
	if err != nil {
		return err
	}
	s.Untell(engine.FieldStart.Set()) // the bounds of the fork say more
	return write(truth.Record{Op: op, PID: pid, State: s, Latest: before, Own: true, OpenThreads: true})
}

// pause says that the process is ready and waits until it may go on.
func pause() error {
	if _, err := unix.Write(readyFD, []byte{1}); err != nil {
		return fmt.Errorf("say that the process is ready: %w", err)
	}
	for b := make([]byte, 1); ; {
		if _, err := unix.Read(goFD, b); !errors.Is(err, unix.EINTR) {
			return err // told to go on, or nobody is left to tell
		}
	}
}

// startThreads starts n threads that live until the process ends.
func startThreads(n int) {
	started := make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- true
			select {}
		}()
	}
	for range n {
		<-started
	}
}

// write sends a record.
func write(r truth.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for {
		if _, err = unix.Write(truthFD, b); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write a record of %d bytes: %w", len(b), err)
	}
	return nil
}
