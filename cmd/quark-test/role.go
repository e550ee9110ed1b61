package main

import (
	"fmt"
	"os"
	"strings"
)

// roleEnv makes this program, when a test executes it, do no more than its value says:
// "queue:BACKEND" has a queue open until it is killed.
const roleEnv = "QUARK_TEST_ROLE"

// playRole does not return if this process was started for a role.
func playRole() {
	v := os.Getenv(roleEnv)
	if v == "" {
		return
	}
	what, backend, _ := strings.Cut(v, ":")
	if what != "queue" {
		fmt.Fprintf(os.Stderr, "quark-test: %s=%s: not a role\n", roleEnv, v)
		os.Exit(2)
	}
	holdQueue(backend)
}
