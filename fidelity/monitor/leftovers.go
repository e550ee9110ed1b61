package monitor

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/internal/tracefs"
)

// leftovers are things in the kernel that outlive the process that made them.
type leftovers struct{ probes, uprobes, pins, rules []string }

// findLeftovers lists what is there. What cannot be read is taken as not there.
func findLeftovers() (l leftovers) {
	if fs, err := tracefs.Open(); err == nil {
		l.probes, _ = fs.ProbeNames("kprobe_events")
		l.uprobes, _ = fs.ProbeNames("uprobe_events")
		fs.Close()
	}
	l.rules = slices.DeleteFunc(auditRules(), func(rule string) bool { return strings.HasPrefix(rule, strconv.Quote(auditdKey)) })
	filepath.WalkDir("/sys/fs/bpf", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			l.pins = append(l.pins, path)
		}
		return nil
	})
	return l
}

// removeNew names what has come since, and removes probes of the kernel whose name has the pid of
// the monitor, as is usual. Of the rest nobody can say whose it is.
func (l leftovers) removeNew(pid int) (notes []string) {
	now := findLeftovers()
	for _, c := range []struct {
		what, remove string
		was, is      []string
	}{
		{"a probe of the kernel", "echo -:%s >>kprobe_events, in tracefs", l.probes, now.probes},
		{"a probe of a program", "echo -:%s >>uprobe_events, in tracefs", l.uprobes, now.uprobes},
		{"an eBPF object", "rm %s", l.pins, now.pins},
		{"an audit rule", "auditctl -d, with key %s", l.rules, now.rules},
	} {
		for _, name := range c.is {
			switch {
			case slices.Contains(c.was, name):
			case c.what == "a probe of the kernel" && hasNumber(name, pid) && removeProbe(name) == nil:
				notes = append(notes, fmt.Sprintf("left behind, and removed: %s, %s", c.what, name))
			default:
				notes = append(notes, fmt.Sprintf("new since it was started: %s, %s (to remove it: "+c.remove+")", c.what, name, name))
			}
		}
	}
	return notes
}

// hasNumber reports whether a number is one of the words of a name.
func hasNumber(name string, n int) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	return n > 0 && slices.Contains(words, strconv.Itoa(n))
}

func removeProbe(name string) error {
	fs, err := tracefs.Open()
	if err != nil {
		return err
	}
	defer fs.Close()
	p, err := fs.Probes()
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Write("-:" + name)
}
