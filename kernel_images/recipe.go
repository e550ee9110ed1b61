package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// The source of all recipes, a package of Debian, and the suites that are tried in this order until
// one has it.
const sourcePackage = "linux-source-5.10"

var sourceSuites = []string{"bullseye-security", "bullseye"}

// recipe describes a kernel that is built from Debian's source, as no package has it.
type recipe struct {
	name   string // of the row and the link, without the architecture
	arch   string // that it is built for and on
	config string // all other options are off

	// debug are the names, without directories, of the objects with debug information. Together
	// they have every type that quark reads; with that of the whole kernel a build would take
	// half as long again.
	debug []string
}

//go:embed nobtf.config
var nobtfConfig string

// nobtf is a kernel that has kprobes and bpf() but no types.
var nobtf = recipe{
	name:   "nobtf",
	arch:   "amd64",
	config: nobtfConfig,
	debug:  []string{"cgroup", "exec", "exit", "fork", "namespace", "net_namespace", "nsproxy", "pids", "tty_io", "utsname"},
}

// recipes are all recipes. Those of odd/ differ from nobtf by some options each.
var recipes = []recipe{
	nobtf,
	// As on distributions' kernels a new session makes a new group for the scheduler.
	nobtf.but("odd/no-connector", "CONFIG_CONNECTOR=n", "CONFIG_PROC_EVENTS=n", "CONFIG_SCHED_AUTOGROUP=y"),
	nobtf.but("odd/no-proc-events", "CONFIG_PROC_EVENTS=n", "CONFIG_SCHED_AUTOGROUP=y"),
	nobtf.but("odd/no-kprobes", "CONFIG_KPROBES=n", "CONFIG_KPROBE_EVENTS=n"),
	nobtf.but("odd/no-bpf", "CONFIG_BPF_SYSCALL=n", "CONFIG_BPF_JIT=n", "CONFIG_BPF_EVENTS=n", "CONFIG_CGROUP_BPF=n"),
	// Without its tracers the kernel has neither tracefs nor programs on tracepoints. Blocks'
	// tracer and others are off already.
	nobtf.but("odd/no-tracefs", "CONFIG_FTRACE=n", "CONFIG_FUNCTION_TRACER=n", "CONFIG_DYNAMIC_FTRACE=n", "CONFIG_KPROBE_EVENTS=n",
		"CONFIG_UPROBES=n", "CONFIG_UPROBE_EVENTS=n", "CONFIG_FTRACE_SYSCALLS=n", "CONFIG_EVENT_TRACING=n", "CONFIG_BPF_EVENTS=n"),
	nobtf.but("odd/preempt-none", "CONFIG_PREEMPT_NONE=y", "CONFIG_HZ_250=n", "CONFIG_HZ_100=y"),
	nobtf.but("odd/preempt-full", "CONFIG_PREEMPT=y", "CONFIG_HZ_250=n", "CONFIG_HZ_1000=y"),
}

// but returns a recipe of another name with further lines in its configuration, in place of those
// of the same options.
func (r recipe) but(name string, lines ...string) recipe {
	option := func(line string) string { name, _, _ := strings.Cut(line, "="); return name }
	own := make(map[string]bool)
	for _, line := range lines {
		own[option(line)] = true
	}
	kept := slices.DeleteFunc(strings.Split(strings.TrimSpace(r.config), "\n"), func(line string) bool { return own[option(line)] })
	r.name, r.config = name, strings.Join(append(kept, lines...), "\n")+"\n"
	return r
}

// compile returns make's arguments. The same source gives the same bytes.
func (r recipe) compile() []string {
	args := []string{"KBUILD_BUILD_TIMESTAMP=2000-01-01 00:00:00 UTC", "KBUILD_BUILD_USER=quark", "KBUILD_BUILD_HOST=quark"}
	for _, object := range r.debug {
		args = append(args, "CFLAGS_"+object+".o=-gdwarf-4")
	}
	return append(args, "bzImage")
}

// variant returns an identifier of the recipe for the name of a file, which differs between builds
// of the same source.
func (r recipe) variant() string {
	sum := sha256.Sum256([]byte(r.config + "\x00" + strings.Join(r.compile(), "\x00")))
	return fmt.Sprintf("%s-%x", strings.ReplaceAll(r.name, "/", "-"), sum[:6])
}

// ignored returns the lines of the recipe's configuration that are not in result, the kernel's
// .config: the source does not know the option, or it depends on one that is off.
func (r recipe) ignored(result string) []string {
	set := make(map[string]string)
	for _, line := range strings.Split(result, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			set[name] = value
		}
	}
	var lines []string
	for _, line := range strings.Split(r.config, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if value == "n" {
			value = ""
		}
		if set[name] != value {
			lines = append(lines, line)
		}
	}
	return lines
}
