package monitor

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/tracefs"
)

// leftover is a kernel object that outlives the process that created it.
type leftover struct {
	what, name string
	remove     func() error
	by         string // command to remove it
}

// pinDir is the mount point of the BPF file system.
const pinDir = "/sys/fs/bpf"

// probeFiles are the probe files of tracefs. The last one lists the probes of the others too;
// kernels before 5.0 lack it.
var probeFiles = []struct{ what, file string }{
	{"probe of the kernel", "kprobe_events"}, {"probe of a program", "uprobe_events"}, {"dynamic event", "dynamic_events"},
}

// findLeftovers lists existing leftovers in the order in which they can be removed. It skips
// unreadable ones.
func findLeftovers() (list []leftover) {
	if fs, err := tracefs.Open(); err == nil {
		list = traces(fs)
		fs.Close()
	}
	if c, err := auditrule.Open(); err == nil {
		rules, _ := c.Rules() // none without the privilege or without audit
		c.Close()
		for _, r := range rules {
			list = append(list, leftover{"audit rule", ruleName(r), func() error { return deleteRule(r) }, "auditctl -d, with its key"})
		}
	}
	var pins []leftover
	filepath.WalkDir(pinDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != pinDir {
			what := "eBPF object"
			if d.IsDir() {
				what = "directory of eBPF objects"
			}
			pins = append(pins, leftover{what, path, func() error { return os.Remove(path) }, "rm -d " + path})
		}
		return nil
	})
	slices.Reverse(pins) // files before their directory
	return append(list, pins...)
}

// traces lists instances and probes. Probes that an instance has enabled cannot be removed before
// it.
func traces(fs *tracefs.FS) (list []leftover) {
	in := func(do func(*tracefs.FS) error) func() error {
		return func() error {
			fs, err := tracefs.Open()
			if err != nil {
				return err
			}
			defer fs.Close()
			return do(fs)
		}
	}
	instances, _ := fs.Instances()
	for _, name := range instances {
		list = append(list, leftover{"tracing instance", name, in(func(fs *tracefs.FS) error { return fs.RemoveInstance(name) }),
			"rmdir instances/" + name + ", in tracefs"})
	}
	known := make(map[string]bool)
	for _, f := range probeFiles {
		names, _ := fs.ProbeNames(f.file)
		for _, name := range names {
			if !known[name] {
				list = append(list, leftover{f.what, name, in(func(fs *tracefs.FS) error { return fs.RemoveProbe(f.file, name) }),
					"echo -:" + name + " >>" + f.file + ", in tracefs"})
			}
			known[name] = true
		}
	}
	return list
}

// ruleName identifies an audit rule by its key and content.
func ruleName(b []byte) string {
	r, _ := auditrule.Parse(b)
	h := fnv.New32a()
	h.Write(b)
	return fmt.Sprintf("%q (%x)", r.Key(), h.Sum32())
}

func deleteRule(rule []byte) error {
	c, err := auditrule.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Delete(rule)
}

// Group tracks monitors that run at the same time, as a leftover of one can belong to another
// running one. The zero value is ready.
type Group struct {
	mu sync.Mutex
	// present maps running monitors to the leftovers that existed when each began.
	present map[*Run]map[string]bool
}

func (l *leftover) id() string { return l.what + " " + l.name }

// register records the leftovers that exist before a run.
func (c *Group) register(r *Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present == nil {
		c.present = make(map[*Run]map[string]bool)
	}
	before := make(map[string]bool)
	for _, l := range findLeftovers() {
		before[l.id()] = true
	}
	c.present[r] = before
}

// cleanUp removes the leftovers created since a run began, and reports one line for each kind.
// Leftovers that another running monitor may own stay until that one ends, and so do names that
// contain the pid of a live process.
func (c *Group) cleanUp(r *Run) (notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.present[r]
	delete(c.present, r)
	removed := make(map[string][]string)
	var sorts []string
	for _, l := range findLeftovers() {
		if before[l.id()] || hasOwner(l.name) {
			continue
		}
		others := false
		for _, earlier := range c.present {
			others = others || !earlier[l.id()]
		}
		if others {
			continue
		}
		switch err := l.remove(); {
		case err == nil:
			if removed[l.what] == nil {
				sorts = append(sorts, l.what)
			}
			removed[l.what] = append(removed[l.what], l.name)
		case errors.Is(err, fs.ErrNotExist): // its owner has removed it
		default:
			notes = append(notes, fmt.Sprintf("left behind: %s %s: remove it by hand (%[4]s): %[3]v", l.what, l.name, err, l.by))
		}
	}
	for _, what := range sorts {
		names := removed[what]
		const most = 3
		more := ""
		if len(names) > most {
			more = fmt.Sprintf(" and %d more", len(names)-most)
		}
		notes = append(notes, fmt.Sprintf("left behind, and removed: %s %s%s", what, strings.Join(names[:min(len(names), most)], ", "), more))
	}
	return notes
}

// hasOwner reports whether a number in a name is the pid of a live process. It ignores small
// numbers, which count something else.
func hasOwner(name string) bool {
	const small = 100
	digits := strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	return slices.ContainsFunc(digits, func(word string) bool {
		n, err := strconv.ParseUint(word, 10, 22)
		if err != nil || n < small {
			return false
		}
		_, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", n)) // kernel threads have none
		return err == nil || errors.Is(err, fs.ErrPermission)
	})
}
