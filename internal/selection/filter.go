package selection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/getent"
)

// filterOptions are the options that select the events to show. An event must pass all of them.
type filterOptions struct {
	terms       []*comparison
	failed      bool
	expressions []string
	rules       string
}

// comparison is an option that compares a field with values.
type comparison struct {
	flag, field, op string
	suffix          string // added to each value
	values          []string
	database        string // of names for ids, "" for none
}

func (o *filterOptions) flags(c *cobra.Command) {
	f := c.Flags()
	add := func(flag, short, field, op, help string) *comparison {
		t := &comparison{flag: flag, field: field, op: op}
		o.terms = append(o.terms, t)
		if op == "==" {
			f.StringSliceVarP(&t.values, flag, short, nil, help)
		} else {
			f.StringArrayVarP(&t.values, flag, short, nil, help)
		}
		return t
	}
	add("uid", "", "uid", "==", "only processes of one of these `users`, a list of ids or names").database = "passwd"
	add("gid", "", "gid", "==", "only processes with one of these `groups`, a list of ids or names").database = "group"
	add("pid", "", "pid", "==", "only these `processes`, a list")
	add("ppid", "P", "ppid", "==", "only children of these `processes`, a list")
	add("tree", "", "tree", "==", "only these `processes`, a list, and all their descendants")
	add("comm", "", "comm", "~", "only processes with a name that matches this `pattern` with * ? and [a-z]")
	add("exe", "", "exe", "~", "only processes with an executable that matches this `pattern`: its last component, or its path, where ** also matches slashes")
	add("args", "", "args", "~", "only processes with an argument that matches this `pattern`")
	add("container", "", "container_id", "~", "only processes in a container with an id that begins with this `id`").suffix = "*"
	add("cgroup", "", "cgroup", "~", "only processes in a cgroup that matches this `pattern`, where ** also matches slashes")
	f.BoolVar(&o.failed, "failed", false, "only exits with a code other than 0 or by a signal")
	f.StringArrayVar(&o.expressions, "filter", nil, "only events for which this `expression` is true, such as 'exec and uid != 0 and exe ~ \"/tmp/**\"'")
	f.Var((*rulesFile)(&o.rules), "rules", "only events that pass the rules in this `file`; - is the standard input")
}

// rulesFile is a command.File, or "-" for the standard input.
type rulesFile string

func (r *rulesFile) Set(name string) error {
	if name == "-" {
		*r = "-"
		return nil
	}
	return (*command.File)(r).Set(name)
}

func (r *rulesFile) String() string { return string(*r) }
func (r *rulesFile) Type() string   { return "file" }

// compile returns the filter of the options, or nil if there is none.
func (o *filterOptions) compile(ctx context.Context, names *Options) (*quark.Filter, error) {
	var all []*quark.Filter
	add := func(option string, f *quark.Filter, err error) error {
		if wrong := new(quark.FilterError); errors.As(err, &wrong) && option != "" {
			return fmt.Errorf("%s: %s", option, wrong.Msg)
		}
		all = append(all, f)
		return err
	}
	for _, t := range o.terms {
		if len(t.values) == 0 {
			continue
		}
		values := make([]string, len(t.values))
		for i, v := range t.values {
			if t.database != "" {
				var err error
				if v, err = names.hostID(t.database, v); err != nil {
					return nil, fmt.Errorf("--%s: %w", t.flag, err)
				}
			}
			values[i] = v + t.suffix
		}
		f, err := quark.CompareFilter(t.field, t.op, values...)
		if err := add(fmt.Sprintf("--%s %s", t.flag, strings.Join(t.values, ",")), f, err); err != nil {
			return nil, err
		}
	}
	if o.failed {
		f, err := quark.ParseFilter("failed")
		if err := add("--failed", f, err); err != nil {
			return nil, err
		}
	}
	for _, e := range o.expressions {
		f, err := quark.ParseFilter(e)
		if err := add("", f, err); err != nil {
			return nil, fmt.Errorf("--filter: %w", err)
		}
	}
	if o.rules != "" {
		text, err := readRules(ctx, o.rules)
		if err != nil {
			return nil, fmt.Errorf("--rules: %w", err)
		}
		f, err := quark.ParseRules(text)
		if err := add("", f, err); err != nil {
			return nil, fmt.Errorf("--rules %s: %w", o.rules, err)
		}
	}
	return quark.AllOf(all...), nil
}

// hostID returns the id that getent(1) prints for a name. Without getent it returns the name, which
// the filter looks up.
func (o *Options) hostID(database, name string) (string, error) {
	if _, err := strconv.ParseInt(name, 10, 64); err == nil || !o.Names {
		return name, nil
	}
	_, id, err := getent.Lookup(database, name)
	if err != nil {
		return "", fmt.Errorf("getent %s %s timed out: give the id", database, name)
	}
	return cmp.Or(id, name), nil
}

// checkPaths returns an error if a path in a filter is a symbolic link of this host. The fields exe
// and cwd have the target paths of links.
func checkPaths(f *quark.Filter) error {
	host, err := os.Stat("/proc/1/root")
	if own, e := os.Stat("/"); err == nil && e == nil && !os.SameFile(host, own) {
		return nil // paths in a container, where links may differ
	}
	var names []string
	for _, p := range f.Paths() {
		names = append(names, filepath.Base(p.Value))
	}
	for _, p := range f.Paths() {
		if strings.ContainsAny(p.Value, `/*?[\`) {
			err = checkPath(p.Field, p.Value)
		} else {
			err = checkName(p.Value, names)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkName returns an error if a program is a symbolic link to a program that is not among names.
func checkName(name string, names []string) error {
	file, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(file)
	is := filepath.Base(target)
	if err != nil || is == name || slices.Contains(names, is) {
		return nil
	}
	return fmt.Errorf("exe %s in a filter: %[1]s is a symbolic link to %s on this host, and exe has the target path: add %[3]s, or use comm", name, target, is)
}

// checkPath returns an error if a path or pattern begins with a symbolic link.
func checkPath(field, value string) error {
	path := value
	if n := strings.IndexAny(value, `*?[\`); n >= 0 {
		path = value[:strings.LastIndexByte(value[:n], '/')+1]
	}
	leads, err := filepath.EvalSymlinks(path)
	if err != nil { // the file does not exist
		path = filepath.Dir(path)
		leads, err = filepath.EvalSymlinks(path)
	}
	if err != nil || leads == filepath.Clean(path) {
		return nil
	}
	path = filepath.Clean(path)
	return fmt.Errorf("%s %s in a filter: %s is a symbolic link to %s on this host, and %[1]s has the target path: write %[5]s, or **%[2]s with ~ for containers too",
		field, value, path, leads, leads+strings.TrimPrefix(value, path))
}

// readRules reads a file, FIFO or standard input, which can block.
func readRules(ctx context.Context, name string) (string, error) {
	b, err := Await(ctx, func() ([]byte, error) {
		file := os.Stdin
		if name != "-" {
			var err error
			if file, err = os.Open(name); err != nil {
				return nil, err
			}
			defer file.Close()
		}
		const most = 1 << 20 // limit of ParseRules; some files never end
		return io.ReadAll(io.LimitReader(file, most+1))
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: ended before it was read", name)
	}
	return string(b), err
}
