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

// Env makes a program that calls Main a process of a scenario. It is in the
// environment because the arguments belong to the scenarios.
const Env = "QUARK_FIDELITY"

// The descriptors that the processes of a scenario have, high enough that no other
// is in the way.
const (
	truthFD = 201 // records are written here
	procFD  = 202 // /proc
	goFD    = 203 // a byte can be read here when an image is to go on
	readyFD = 204 // a byte is written here when an image has reported
)

func init() {
	// Before any other goroutine: what a scenario does is done by the main thread,
	// whose comm, ids and namespaces are those of the process.
	if os.Getenv(Env) != "" {
		runtime.LockOSThread()
	}
}

// Main does not return if this process was started for a scenario.
func Main() {
	v := os.Getenv(Env)
	if v == "" {
		return
	}
	role, arg, _ := strings.Cut(v, ":")
	if role == "run" {
		direct(arg)
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

// role is the environment of an executed image. It reports, and then, by name:
//
//	report  ends with the code
//	wait    reads a byte from goFD first, and reports again
//	inside  the same, its paths and ids being those of another root or namespace
//	chain   executes itself, as often as more says, before it ends
//	threads starts as many threads as more says before it ends
func role(name string, code, more int) []string {
	return []string{fmt.Sprintf("%s=%s:%d:%d", Env, name, code, more)}
}

// image is what an executed program does.
func image(name string, args []string) error {
	if len(args) != 2 {
		return errors.New("not a role")
	}
	code, err1 := strconv.Atoi(args[0])
	more, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := report(truth.Exec, name == "inside"); err != nil {
		return err
	}
	switch name {
	case "report":
	case "wait", "inside":
		if err := pause(); err != nil {
			return err
		}
		if name == "wait" {
			if err := report(truth.Now, false); err != nil {
				return err
			}
		}
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

// report writes down what this process is.
func report(op truth.Op, inside bool) error {
	before := truth.Clock()
	pid, s, err := truth.Proc{FD: procFD}.Read("self")
	if err != nil {
		return err
	}
	r := truth.Record{Op: op, PID: pid, State: s, Latest: before, Own: true}
	// /proc/self is the main thread; its start time is a tick, the fork's bounds say more.
	r.State.Untell(engine.FieldStart.Set())
	if inside {
		for _, f := range []engine.Field{engine.FieldFilename, engine.FieldCwd} {
			r.Inside.Set(f, s.Value[f])
		}
		r.Open = engine.FieldsIDs | engine.Fields(1<<engine.FieldFilename|1<<engine.FieldCwd|1<<engine.FieldCgroup)
		r.State.Untell(r.Open)
	}
	return write(r)
}

// pause says that the image runs and waits until it may go on.
func pause() error {
	if _, err := unix.Write(readyFD, []byte{1}); err != nil {
		return fmt.Errorf("say that the image runs: %w", err)
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
