//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/harness/argv"
)

// options are init's options on the kernel command line.
type options struct {
	// hideBTF (quark.hide_btf=1) mounts an empty tmpfs over /sys/kernel/btf, so that user space
	// sees no BTF.
	hideBTF bool
	// cgroup1 (quark.cgroup=1) mounts only hierarchies of cgroup version 1.
	cgroup1 bool
	// results (quark.results=NAME) is the device in /dev of the results port, ttyS1 by default.
	results string
	// stdin (quark.stdin=NAME) is the device in /dev of the command's controlling terminal,
	// which it reads. Without it the command has no input.
	stdin   string
	env     []string // quark.env.NAME=VALUE: variables of the command
	keep    []string // quark.keep=PATTERN: files to send when the command has ended
	command []string // with its arguments: the words after "--"
}

// parseOptions parses a kernel command line from /proc/cmdline. An unknown option is an error: a
// test with a misspelt one would run under wrong conditions.
func parseOptions(cmdline string) (options, error) {
	opts := options{results: "ttyS1"}
	words := splitWords(cmdline)
	for i, word := range words {
		if word == "--" {
			command, err := argv.Decode(words[i+1:])
			opts.command = command
			return opts, err
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
		if value != "0" && value != "1" {
			return fmt.Errorf("kernel argument quark.%s: want 0 or 1", knob)
		}
		o.hideBTF = value == "1"
	case name == "cgroup":
		if value != "1" && value != "2" {
			return fmt.Errorf("kernel argument quark.%s: want 1 or 2", knob)
		}
		o.cgroup1 = value == "1"
	case name == "results" || name == "stdin":
		if value == "" || strings.Contains(value, "/") {
			return fmt.Errorf("kernel argument quark.%s: want the name of a device in /dev", knob)
		}
		if name == "results" {
			o.results = value
		} else {
			o.stdin = value
		}
	case name == "keep":
		if !strings.HasPrefix(value, "/") {
			return fmt.Errorf("kernel argument quark.%s: want an absolute path", knob)
		}
		o.keep = append(o.keep, value)
	case strings.HasPrefix(name, "env.") && len(name) > len("env."):
		o.env = append(o.env, name[len("env."):]+"="+value)
	default:
		return fmt.Errorf("unknown kernel argument quark.%s: use hide_btf, cgroup, results, stdin, keep or env.NAME", name)
	}
	return nil
}

// splitWords splits a command line as the kernel does (lib/cmdline.c, next_arg): at white space
// outside of double quotes. It removes quotes around a word and around the value of a word.
func splitWords(s string) (words []string) {
	quoted, begin := false, -1 // of a word
	for i, c := range s {
		if c == '"' {
			quoted = !quoted
		}
		space := !quoted && strings.ContainsRune(" \t\n\v\f\r", c)
		if space && begin >= 0 {
			words = append(words, unquote(s[begin:i]))
			begin = -1
		} else if !space && begin < 0 {
			begin = i
		}
	}
	if begin >= 0 {
		words = append(words, unquote(s[begin:]))
	}
	return words
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

// kept returns the paths of the files to send. A pattern may match no file.
func (o *options) kept() (paths []string) {
	for _, k := range o.keep {
		found := []string{k}
		if strings.Contains(k, "*") {
			found, _ = filepath.Glob(k) // fails for unmatched brackets
		}
		paths = append(paths, found...)
	}
	return paths
}
