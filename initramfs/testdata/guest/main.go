//go:build linux

// Command guest ends in the ways that the tests of krun.sh ask for.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "exit":
		os.Exit(number(os.Args[2]))
	case "kill":
		check(syscall.Kill(os.Getpid(), syscall.Signal(number(os.Args[2]))))
		hang()
	case "hang":
		hang()
	case "args":
		fmt.Printf("%q\n", os.Args[2:])
	case "panic":
		check(os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0))
		hang()
	case "poweroff":
		check(syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
	case "killinit":
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGSEGV, syscall.SIGKILL} {
			check(syscall.Kill(1, sig))
		}
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Println("guest:", err)
		os.Exit(99)
	}
}

func hang() {
	time.Sleep(time.Hour)
}
