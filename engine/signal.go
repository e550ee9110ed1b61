package engine

import "fmt"

// signals are the names of Linux's signals on amd64 and arm64, on whatever system this runs.
var signals = [...]string{
	1: "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
}

// SignalName returns the name of a signal, such as "SIGKILL", or "SIG" and the number if it has no
// name.
func SignalName(n int) string {
	if n > 0 && n < len(signals) {
		return "SIG" + signals[n]
	}
	return fmt.Sprintf("SIG%d", n)
}
