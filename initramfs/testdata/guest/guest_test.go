//go:build linux

// Package guest is a test binary that fails in the ways that the tests of krun.sh and of
// quark-matrix need, as the command guest in their images.
package guest

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

func TestMain(*testing.M) { do() }

func do() {
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
		os.Exit(3)
	case "panic":
		check(os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0))
		hang()
	case "read":
		tty, err := os.Open("/dev/tty") // standard input is the controlling terminal
		check(err)
		// Input from before the terminal was opened may be lost, completely or partly.
		for r, line := bufio.NewReader(tty), ""; line != os.Args[2]+"\n"; {
			line, err = r.ReadString('\n')
			check(err)
		}
		fmt.Printf("read %q\n", os.Args[2])
	case "poweroff":
		check(syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
	case "garbage":
		// A stray write and a lost byte on the result port.
		port, err := os.OpenFile(os.Getenv("QUARK_RESULTS"), os.O_WRONLY|syscall.O_NOCTTY, 0)
		check(err)
		_, err = port.WriteString("\x00\xff stray {\n{\"type\":\"result\",\"test\":\"t_x\",\"backend\":\"ebpf\",\"state\":\"pass\"}\n")
		check(err)
	case "oom":
		for held := [][]byte{}; ; {
			b := make([]byte, 16<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
	case "test":
		// A test program that starts a test and fails in it as the other arguments specify.
		port, err := record.OpenWriter(os.Getenv("QUARK_RESULTS"))
		check(err)
		for _, rec := range []any{
			record.Plan{Jobs: []record.Job{{Test: "t_first", Backend: "ebpf"}, {Test: "t_bad", Backend: "ebpf"}, {Test: "t_never", Backend: "ebpf"}}},
			record.Start{Test: "t_first", Backend: "ebpf"},
			record.Result{Test: "t_first", Backend: "ebpf", State: record.Pass, DurationMS: 1},
			record.Start{Test: "t_bad", Backend: "ebpf"},
		} {
			check(port.Write(rec))
		}
		os.Args = os.Args[1:]
		do()
	case "lacks":
		b, err := os.ReadFile("/proc/cpuinfo")
		check(err)
		if slices.Contains(strings.Fields(string(b)), os.Args[2]) {
			fmt.Printf("the processor has %s\n", os.Args[2])
			os.Exit(1)
		}
		os.Args = os.Args[2:]
		do()
	case "killinit":
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGSEGV, syscall.SIGKILL} {
			check(syscall.Kill(1, sig))
		}
		os.Args = os.Args[1:]
		do()
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
