package selection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/internal/command"
)

// filterOptions are the options that say which events are shown: those that all of them let pass.
type filterOptions struct {
	terms       []*comparison
	failed      bool
	expressions []string
	rules       string
}

// comparison is an option that compares a field with its values.
type comparison struct {
	flag, field, op string
	suffix          string // added to each value
	values          []string
	// id returns the id of what is given by its name, nil where there are no names
	id func(name string) (string, error)
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
	add("uid", "", "uid", "==", "only of processes of one of these `users`, a list of ids or names").id = userID
	add("gid", "", "gid", "==", "only of processes with one of these `groups`, a list of ids or names").id = groupID
	add("pid", "", "pid", "==", "only of these `processes`, a list")
	add("ppid", "P", "ppid", "==", "only of the children of these `processes`, a list")
	add("tree", "", "tree", "==", "only of these `processes`, a list, and all their descendants")
	add("comm", "", "comm", "~", "only of processes with such a name; the `pattern` has * ? and [a-z]")
	add("exe", "", "exe", "~", "only of such an executable: a `pattern` in which ** stands for slashes too")
	add("argv", "", "argv", "~", "only with an argument like this `pattern`")
	add("container", "", "container", "~", "only in the container with this `id`, or its beginning").suffix = "*"
	add("cgroup", "", "cgroup", "~", "only in a cgroup like this `pattern`, in which ** stands for slashes too")
	f.BoolVar(&o.failed, "failed", false, "only the ends with a code other than 0 or by a signal")
	f.StringArrayVar(&o.expressions, "filter", nil, "only what this `expression` is true of, such as 'exec and uid != 0 and exe ~ \"/tmp/**\"'")
	f.Var((*rulesFile)(&o.rules), "rules", "only what the rules in this `file` let pass; - is the standard input")
}

// rulesFile is a command.File, or "-".
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

// compile returns the filter of the options, nil if there is none.
func (o *filterOptions) compile(ctx context.Context) (*quark.Filter, error) {
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
			if t.id != nil {
				var err error
				if v, err = t.id(v); err != nil {
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

// userID returns the id of a user of this host, given by its name or its id.
func userID(name string) (string, error) {
	return hostID("user", "/etc/passwd", name, func() (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
}

// groupID returns the id of a group of this host, given by its name or its id.
func groupID(name string) (string, error) {
	return hostID("group", "/etc/group", name, func() (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
}

// hostID returns the id that look finds, in a file, for the name of a user or a group. An id is its
// own.
func hostID(what, file, name string, look func() (string, error)) (string, error) {
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return name, nil
	}
	text, err := look()
	switch {
	case errors.As(err, new(user.UnknownUserError)), errors.As(err, new(user.UnknownGroupError)):
		return "", fmt.Errorf("this host has no %s %q", what, name)
	case err != nil:
		return "", fmt.Errorf("look up %s %q: %w", what, name, err)
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 32)
	if err != nil {
		return "", fmt.Errorf("%s gives %s %q the id %q, which is none: correct it", lineOf(file, name), what, name, text)
	}
	return strconv.FormatUint(id, 10), nil
}

// lineOf returns FILE:LINE of the first line that begins with a name, or FILE if that is not found.
func lineOf(file, name string) string {
	b, _ := os.ReadFile(file)
	n := 0
	for line := range strings.Lines(string(b)) {
		if n++; strings.HasPrefix(strings.TrimSpace(line), name+":") {
			return fmt.Sprintf("%s:%d", file, n)
		}
	}
	return file
}

// readRules reads a file, FIFO or the standard input, whose writers may be silent.
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
		const most = 1 << 20 // of ParseRules, which says so; some files have no end
		return io.ReadAll(io.LimitReader(file, most+1))
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: ended before it was read", name)
	}
	return string(b), err
}
