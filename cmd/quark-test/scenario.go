package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scenarioEnv makes this program, when it is executed by a test, do no more
// than its value says: "exit:CODE" ends at once, "wait:CODE" says that it runs and
// ends when it is told to, "queue:BACKEND" has a queue open until it is killed. It
// is in the environment because the arguments belong to the tests.
const scenarioEnv = "QUARK_TEST_SCENARIO"

// The descriptors of "wait": high enough that no other is in the way.
const (
	goFD    = 203 // a byte can be read here when it is to end
	readyFD = 204 // a byte is written here when it runs
)

// scenario does not return if this process was started for one.
func scenario() {
	v := os.Getenv(scenarioEnv)
	if v == "" {
		return
	}
	what, arg, _ := strings.Cut(v, ":")
	if what == "queue" {
		holdQueue(arg)
	}
	code, err := strconv.Atoi(arg)
	if err != nil || what != "exit" && what != "wait" {
		fmt.Fprintf(os.Stderr, "quark-test: %s=%s: not a scenario\n", scenarioEnv, v)
		os.Exit(2)
	}
	if what == "wait" {
		unix.Write(readyFD, []byte{1})
		for b := make([]byte, 1); ; {
			if _, err := unix.Read(goFD, b); err != unix.EINTR {
				break // told to end, or nobody is left to tell it
			}
		}
	}
	os.Exit(code)
}

// environ is the environment of a scenario.
func environ(what string, code int) []string {
	return []string{fmt.Sprintf("%s=%s:%d", scenarioEnv, what, code)}
}
