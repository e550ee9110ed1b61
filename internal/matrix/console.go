package matrix

import (
	"bufio"
	"io"
	"regexp"
	"strings"
)

// kernelLine matches a line of the kernel's on the console, which carries a time stamp; a program's half line may stand
// before it. Groups: the text.
var kernelLine = regexp.MustCompile(`\[ *\d+\.\d{6}\](?:\[[^\]]*\])? (.*)`)

// complaints are what the text of such a line begins with, or has in it, when something is wrong with the kernel. Quiet
// matters of user space (a segfault, a denied audit) are none.
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

// readComplaints returns what the kernel complained of on a console, each complaint once.
func readComplaints(r io.Reader) ([]string, error) {
	var found []string
	seen := make(map[string]bool)
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadString('\n')
		if strings.HasPrefix(line, stacksMark) {
			return found, nil // what comes now was asked for
		}
		if text := complaint(strings.TrimRight(line, "\r\n")); text != "" && !seen[text] && len(found) < maxComplaints {
			seen[text] = true
			found = append(found, text)
		}
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return found, err
		}
	}
}

// stacksMark begins the line that krun.sh writes before it asks a guest for its stacks.
const stacksMark = "krun.sh: the guest's stacks"

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
