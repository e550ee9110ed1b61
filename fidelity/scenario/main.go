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

// Env is the environment variable that makes Main run a process of a scenario. It is not an
// argument, as scenarios choose the arguments of programs.
const Env = "QUARK_FIDELITY"

// Descriptors of the processes of a scenario. The numbers are high to avoid conflicts.
const (
	truthFD = 201 // for writing records
	procFD  = 202 // /proc
	goFD    = 203 // the process waits for a byte here
	readyFD = 204 // a worker of a storm writes a byte here when it is ready
)

// separator separates the names of scenarios in Env. Names may contain commas.
const separator = ";"

func init() {
	// init runs on the main thread. The scenario must stay on it, as /proc shows the comm, ids
	// and namespaces of this thread for the process.
	if os.Getenv(Env) != "" {
		runtime.LockOSThread()
	}
}

// InGuest reports whether this machine is a test guest, in which tests may change system settings
// permanently.
func InGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// scale returns a number of repetitions: fewer in a guest, which may be emulated and slow.
func scale(host, guest int) int {
	if InGuest() {
		return guest
	}
	return host
}

// Main runs the part of a scenario for which this process was started, and then does not return.
func Main() {
	v := os.Getenv(Env)
	if v == "" {
		return
	}
	role, arg, _ := strings.Cut(v, ":")
	if role == "run" {
		runDirector(strings.Split(arg, separator))
	}
	var err error
	if role == "worker" {
		err = worker(arg)
	} else {
		err = runRole(role, arg)
	}
	fmt.Fprintf(os.Stderr, "%s=%s: %v\n", Env, v, err)
	write(truth.Record{Op: truth.Fail, Reason: fmt.Sprintf("%s: %v", v, err)})
	os.Exit(2)
}

// role returns the environment for executing this program in a role. The program reports its state;
// then the role
//
//	report   exits with the code
//	chain    executes itself more times before it exits
//	use      uses CPU time, memory and files in as many threads before it exits
//	use-wait like use, and waits for a child that uses files
//	enter    starts the programs in its arguments; see [entries]
func role(name string, code, more int) []string {
	return []string{fmt.Sprintf("%s=%s:%d:%d", Env, name, code, more)}
}

func runRole(name, args string) error {
	var code, more int
	if _, err := fmt.Sscanf(args, "%d:%d", &code, &more); err != nil {
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
	case "use", "use-wait":
		if err := use(more, name == "use-wait"); err != nil {
			return err
		}
	case "enter":
		self, err := os.Executable()
		if err == nil {
			err = enter(self, os.Args)
		}
		if err != nil {
			return err
		}
	default:
		return errors.New("not a role")
	}
	os.Exit(code)
	return nil
}

// report records the state of this process.
func report(op truth.Op) error {
	before := truth.Clock()
	pid, s, err := truth.Proc{FD: procFD}.Read("self")
	if err != nil {
		return err
	}
	s.Forget(engine.FieldStart.Set()) // the fork's record has closer bounds
	return write(truth.Record{Op: op, PID: pid, State: s, Latest: before, Own: true, OpenThreads: true})
}

// takeFDs moves inherited descriptors, starting at from, to their numbers.
func takeFDs(from, flags int, numbers ...int) error {
	for i, n := range numbers {
		if err := unix.Dup3(from+i, n, flags); err != nil {
			return fmt.Errorf("move descriptor %d: %w", from+i, err)
		}
		unix.Close(from + i)
	}
	return nil
}

// awaitGo reports that a worker is ready, and waits until it may continue.
func awaitGo() error {
	if _, err := unix.Write(readyFD, []byte{1}); err != nil {
		return fmt.Errorf("report that the process is ready: %w", err)
	}
	for b := make([]byte, 1); ; {
		if _, err := unix.Read(goFD, b); !errors.Is(err, unix.EINTR) {
			return err // a byte arrived, or the writer has closed the pipe
		}
	}
}

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
