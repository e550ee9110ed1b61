package matrix

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// kernelLine matches a line of the kernel's on the console, which carries a time stamp; a program's
// half line may stand before it. Groups: the text.
var kernelLine = regexp.MustCompile(`\[ *\d+\.\d{6}\](?:\[[^\]]*\])? (.*)`)

// complaints are what the text of such a line begins with, or has in it, when something is wrong
// with the kernel. Quiet matters of user space (a segfault, a denied audit) are none.
var complaints = []*regexp.Regexp{
	regexp.MustCompile(`^Kernel panic - not syncing`),
	regexp.MustCompile(`^BUG: `),
	regexp.MustCompile(`^kernel BUG at `),
	regexp.MustCompile(`^Oops[: ]|^Internal error: |^general protection fault|^stack segment: |^invalid opcode: `),
	regexp.MustCompile(`^(int3|divide error|double fault|traps: PANIC)`),
	regexp.MustCompile(`[Uu]nable to handle (kernel|page fault)`),
	regexp.MustCompile(`^WARNING: `),
	regexp.MustCompile(`^INFO: (possible|inconsistent|trying to register|task .* blocked for)`),
	regexp.MustCompile(`^(WARNING|INFO): suspicious RCU usage|suspicious RCU usage`),
	regexp.MustCompile(`rcu: INFO: |INFO: rcu_\w+ (self-)?detected`),
	regexp.MustCompile(`watchdog: BUG: |soft lockup|hard LOCKUP`),
	regexp.MustCompile(`^(UBSAN|KASAN|KFENCE|KCSAN|KMSAN): `),
	regexp.MustCompile(`^(Out of memory|Memory cgroup out of memory): Killed process`),
	regexp.MustCompile(`^unregister_netdevice: waiting for|^refcount_t: `),
	regexp.MustCompile(`^list_(add|del) corruption`),
	regexp.MustCompile(`unexpected (I|i)nterrupt|nobody cared`),
}

// maxComplaints bounds how many are kept of a guest: an oops has many children.
const maxComplaints = 20

// maxTail bounds how many of a console's last lines are kept, and maxStacks how many of its stacks.
const maxTail, maxStacks = 5, 60

// gist is what is shown of a console at once; all of it is in its file.
type gist struct {
	complaints []string // of the kernel, each once
	tail       []string // the last lines that the guest wrote by itself
	stacks     []string // of init's threads, from a guest that was asked for stacks
}

// readConsole reads a console to its end.
func readConsole(r io.Reader) (c gist, err error) {
	seen := make(map[string]bool)
	asked, ofInit := false, false
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "":
		// what was printed last may have no newline
		case strings.HasSuffix(line, stacksMark):
			asked = true // what comes now was asked for, and is no complaint
		case asked:
			if strings.Contains(line, "] task:") || strings.HasPrefix(line, "quark-matrix: ") {
				ofInit = strings.Contains(line, "] task:init ")
			}
			if ofInit && len(c.stacks) < maxStacks {
				c.stacks = append(c.stacks, line)
			}
		default:
			if len(c.tail) == maxTail {
				c.tail = slices.Delete(c.tail, 0, 1)
			}
			c.tail = append(c.tail, line)
			if text := complaint(line); text != "" && !seen[text] && len(c.complaints) < maxComplaints {
				seen[text] = true
				c.complaints = append(c.complaints, text)
			}
		}
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
}

// stacksMark is the line that is written before a guest is asked for its stacks.
const stacksMark = "quark-matrix: the guest's stacks:"

// complaint returns the text of a line that is one, or "".
func complaint(line string) string {
	m := kernelLine.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	for _, c := range complaints {
		if c.MatchString(m[1]) {
			return m[1]
		}
	}
	return ""
}

// maxOutput bounds what is kept of a command's output.
const maxOutput = 64 << 10

// commandOutput returns what programs wrote to a console, its end if that is long.
func commandOutput(r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(strings.ToValidUTF8(string(b), "?")) {
		line = strings.TrimRight(line, "\r\n")
		if at := kernelLine.FindStringIndex(line); at == nil {
			out.WriteString(line + "\n")
		} else if at[0] > 0 {
			out.WriteString(line[:at[0]]) // the kernel broke into a line
		}
	}
	s := out.String()
	if len(s) > maxOutput {
		s = fmt.Sprintf("[%d bytes left out]\n%s", len(s)-maxOutput, strings.ToValidUTF8(s[len(s)-maxOutput:], "?"))
	}
	return s, nil
}
