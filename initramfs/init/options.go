//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/quark-linux/quark/internal/harness/argv"
)

// options is what the kernel command line asks of init.
type options struct {
	// hideBTF (quark.hide_btf=1) mounts an empty tmpfs over /sys/kernel/btf: to user space the
	// kernel then has no BTF.
	hideBTF bool
	// results (quark.results=NAME) is the port that the records go to, a name in /dev; ttyS1 by
	// default. The machine's maker knows where it put the second port, init does not guess.
	results string
	// stdin (quark.stdin=NAME) is the terminal that the command reads and that it has for its
	// controlling one, a name in /dev; without it there is nothing to read.
	stdin string
	// env (quark.env.NAME=VALUE) is put into the command's environment.
	env []string
	// keep (quark.keep=PATH) are files that the command makes and that are handed out when it
	// has ended.
	keep []string
	// command and its arguments: the words after "--".
	command []string
}

// parseOptions reads a kernel command line as /proc/cmdline has it. An unknown knob is an error: a
// misspelt one would have a test run under other conditions than its name says.
func parseOptions(cmdline string) (options, error) {
	opts := options{results: "ttyS1"}
	words := splitWords(cmdline)
	for i, word := range words {
		if word == "--" {
			command, err := argv.Decode(words[i+1:])
			if err != nil {
				return opts, err
			}
			opts.command = command
			return opts, nil
		}
		knob, ok := strings.CutPrefix(word, "quark.")
		if !ok {
			continue
		}
		if err := opts.set(knob); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

func (o *options) set(knob string) error {
	name, value, _ := strings.Cut(knob, "=")
	switch {
	case name == "hide_btf":
		switch value {
		case "0", "1":
			o.hideBTF = value == "1"
		default:
			return fmt.Errorf("kernel argument quark.hide_btf=%s: 0 or 1 is wanted", value)
		}
	case name == "results":
		if value == "" || strings.Contains(value, "/") {
			return fmt.Errorf("kernel argument quark.results=%s: the name of a device in /dev is wanted", value)
		}
		o.results = value
	case name == "stdin":
		if value == "" || strings.Contains(value, "/") {
			return fmt.Errorf("kernel argument quark.stdin=%s: the name of a device in /dev is wanted", value)
		}
		o.stdin = value
	case name == "keep":
		if !strings.HasPrefix(value, "/") {
			return fmt.Errorf("kernel argument quark.keep=%s: an absolute path is wanted", value)
		}
		o.keep = append(o.keep, value)
	case strings.HasPrefix(name, "env.") && len(name) > len("env."):
		o.env = append(o.env, name[len("env."):]+"="+value)
	default:
		return fmt.Errorf("kernel argument quark.%s: unknown; hide_btf, results, stdin, keep and env.NAME are known", name)
	}
	return nil
}

// splitWords splits a command line as the kernel does (lib/cmdline.c, next_arg): at white space
// outside of double quotes, which are taken off when they stand around a word or around the value
// of a word.
func splitWords(s string) []string {
	var words []string
	for {
		s = strings.TrimLeft(s, " \t\n\v\f\r")
		if s == "" {
			return words
		}
		quoted, end := false, len(s)
		for i := 0; i < len(s); i++ {
			if s[i] == '"' {
				quoted = !quoted
			} else if !quoted && strings.IndexByte(" \t\n\v\f\r", s[i]) >= 0 {
				end = i
				break
			}
		}
		words = append(words, unquote(s[:end]))
		s = s[end:]
	}
}

func unquote(word string) string {
	if strings.HasPrefix(word, `"`) {
		return strings.TrimSuffix(word[1:], `"`)
	}
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(value, `"`) {
		return name + "=" + strings.TrimSuffix(value[1:], `"`)
	}
	return word
}
