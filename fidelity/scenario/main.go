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

// Env is the environment variable that turns a program that calls Main into a process of a
// scenario. It is a variable because the scenarios choose the arguments.
const Env = "QUARK_FIDELITY"

// The descriptors of the processes of a scenario; the numbers are high, so that no other descriptor
// has them.
const (
	truthFD = 201 // records are written here
	procFD  = 202 // /proc
	goFD    = 203 // the process reads a byte here before it goes on
	readyFD = 204 // the process writes a byte here when it is ready
)

// separator separates the names of scenarios in Env. Names may contain commas.
const separator = ";"

func init() {
	// init runs on the main thread. The scenario has to stay on it, because its comm, ids
	// and namespaces are those of the process.
	if os.Getenv(Env) != "" {
		runtime.LockOSThread()
	}
}

// InGuest reports whether this machine is a guest that was booted for tests: one whose settings
// they may change for good.
func InGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// scale returns a number of repetitions: fewer in a guest, which may be emulated and slow.
func scale(host, guest int) int {
	if InGuest() {
		return guest
	}
	return host
}

// Main runs the part of a scenario for which this process was started, and does not return then.
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

// role returns the environment with which a scenario executes this program. The program reports
// its state and then, by name:
//
//	report  ends with the code
//	chain   executes itself more times before it ends
//	threads starts more threads before it ends
//	use     uses CPU time, memory and files in so many threads before it ends
//	use-wait likewise, and waits for a child which uses files
//	enter   starts the programs that its arguments name; see [entries]
func role(name string, code, more int) []string {
	return []string{fmt.Sprintf("%s=%s:%d:%d", Env, name, code, more)}
}

// image performs a role.
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

// takeFDs moves descriptors that this process was started with to their numbers. The first is from.
func takeFDs(from, flags int, numbers ...int) error {
	for i, n := range numbers {
		if err := unix.Dup3(from+i, n, flags); err != nil {
			return fmt.Errorf("move descriptor %d: %w", from+i, err)
		}
		unix.Close(from + i)
	}
	return nil
}

// pause announces that the process is ready and waits until it may go on.
func pause() error {
	if _, err := unix.Write(readyFD, []byte{1}); err != nil {
		return fmt.Errorf("announce that the process is ready: %w", err)
	}
	for b := make([]byte, 1); ; {
		if _, err := unix.Read(goFD, b); !errors.Is(err, unix.EINTR) {
			return err // told to go on, or the writer is gone
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
