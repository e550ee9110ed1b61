package matrix

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

// kernelLine matches a message of the kernel on the console, which has a time stamp. An unfinished
// line of a program may precede it. Group 1 is the text.
var kernelLine = regexp.MustCompile(`\[ *\d+\.\d{6}\](?:\[[^\]]*\])? (.*)`)

// complaints match messages about faults of the kernel. Faults of user space (a segfault, a denied
// audit) do not match.
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

// Limits of the lines of an excerpt. One oops causes many complaints.
const maxComplaints, maxTail, maxStacks = 20, 5, 60

// excerpt is the part of a console that reports show; the file has the whole console.
type excerpt struct {
	complaints []string // of the kernel, each once
	tail       []string // the last lines before stacks were requested
	stacks     []string // the requested stacks of init's threads
}

// readConsole reads a console to its end.
func readConsole(r io.Reader) (c excerpt, err error) {
	seen := make(map[string]bool)
	asked, ofInit := false, false
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "":
		case strings.HasSuffix(line, stacksMark): // an unfinished line may precede it
			asked = true // the following lines were requested and are not complaints
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

// stacksMark is the line on the console before the stacks that a guest is requested to print.
const stacksMark = "quark-matrix: the guest's stacks:"

// complaint returns the text of a line if it is a complaint of the kernel, else "".
func complaint(line string) string {
	m := kernelLine.FindStringSubmatch(line)
	if m == nil || !slices.ContainsFunc(complaints, func(c *regexp.Regexp) bool { return c.MatchString(m[1]) }) {
		return ""
	}
	return m[1]
}

// maxOutput limits the bytes of a command's output that are kept. They are the last bytes.
const maxOutput = 64 << 10

// commandOutput returns the output of programs in a console's file: the text without the kernel's
// messages.
func commandOutput(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(strings.ToValidUTF8(string(b), "?")) {
		line = strings.TrimRight(line, "\r\n")
		if at := kernelLine.FindStringIndex(line); at == nil {
			out.WriteString(line + "\n")
		} else if at[0] > 0 {
			out.WriteString(line[:at[0]]) // the message interrupts a program's line
		}
	}
	return record.CutLog(out.String(), maxOutput), nil
}
