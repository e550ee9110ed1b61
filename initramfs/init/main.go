//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
)

// statusInit is the status in an end record when init itself could not do its work. krun.sh uses
// the same number for a guest that does not report.
const statusInit = 125

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: is pid 1 of a guest and powers the machine off; it runs as nothing else")
		os.Exit(2)
	}
	// The kernel keeps unhandled signals from pid 1, but the Go runtime ends the process for
	// some itself. Signals that are taken and dropped go back to their defaults in the command;
	// ignored ones would stay ignored there.
	signal.Notify(make(chan os.Signal, 1))

	g := &guest{}
	g.end(g.run())
}

const resultsLink = "/run/quark-results"

// guest is what init knows of the machine it runs in.
type guest struct {
	results *port
	missing []string
}

// run sets the guest up and runs its command. It never panics: what does go wrong is in the record
// that it returns.
func (g *guest) run() (e record.End) {
	defer func() {
		if r := recover(); r != nil {
			say("panic: %v\n%s", r, debug.Stack())
			e = record.End{Status: statusInit, Error: fmt.Sprintf("init panicked: %v", r)}
		}
	}()

	// init has a session, and the results port as its terminal: see openPort. The kernel starts
	// pid 1 in none.
	if _, err := unix.Setsid(); err != nil {
		g.miss(fmt.Sprintf("setsid: %v", err))
	}
	missing, mountErr := mountAll(mounts, mount.do)
	g.miss(missing...)

	var opts options
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err == nil {
		opts, err = parseOptions(string(cmdline))
	}
	// The port comes before the errors, which are to leave through it.
	if opts.results != "" {
		if g.results, _ = openPort("/dev/" + opts.results); g.results == nil {
			say("no results port /dev/%s: the command runs, its results are lost", opts.results)
		}
	}
	switch {
	case mountErr != nil:
		return record.End{Status: statusInit, Error: mountErr.Error()}
	case err != nil:
		return record.End{Status: statusInit, Error: err.Error()}
	}
	if opts.hideBTF {
		if err := hideBTF(); err != nil {
			return record.End{Status: statusInit, Error: err.Error()}
		}
	}
	// A name for the port that is the same on every machine, for who cannot read the
	// environment.
	if err := os.Symlink("/dev/"+opts.results, resultsLink); err != nil {
		g.miss(err.Error())
	}
	if err := loopbackUp(); err != nil {
		g.miss(err.Error())
	}
	g.send(g.hello())
	e = runCommand(opts)
	for _, path := range opts.keep {
		err := g.handOut(path)
		if e.Status != 0 && errors.Is(err, fs.ErrNotExist) {
			continue // a command that fails may not get so far
		}
		if err != nil && e.Error == "" {
			e.Error = fmt.Sprintf("hand out a file: %v", err)
		}
	}
	return e
}

// handOut sends a file that the command made, under its base name.
func (g *guest) handOut(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, b := range record.Blobs(filepath.Base(path), content) {
		g.send(b)
	}
	return nil
}

func (g *guest) hello() record.Hello {
	release, version, err := uname()
	if err != nil {
		g.miss(err.Error())
	}
	var mem unix.Sysinfo_t
	if err := unix.Sysinfo(&mem); err != nil {
		g.miss(fmt.Sprintf("sysinfo: %v", err))
	}
	osRelease, _ := os.ReadFile("/etc/os-release") // no image name is no harm
	return record.Hello{
		Kernel:   release,
		Version:  version,
		Arch:     runtime.GOARCH,
		CPUs:     runtime.NumCPU(),
		MemoryKB: uint64(mem.Totalram) * uint64(mem.Unit) / 1024,
		Image:    imageVersion(string(osRelease)),
		Features: probeFeatures(),
		Missing:  g.missing,
	}
}

// end reports and powers off. It does not return.
func (g *guest) end(e record.End) {
	if e.Error != "" {
		say("%s", e.Error)
	}
	g.send(e)
	if g.results != nil {
		if err := record.Drain(g.results.f); err != nil {
			say("drain the results port: %v", err)
		}
	}
	record.Drain(os.Stdout) // the console has no other place to complain to
	powerOff()
}

// powerOff does not return.
func powerOff() {
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	say("power off: %v", err)
	// A machine that cannot power off may reboot, which its maker takes for the same.
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	say("reboot: %v", err)
	for { // the deadline of the guest ends it
		time.Sleep(time.Hour)
	}
}

func (g *guest) send(rec any) {
	if g.results == nil {
		return
	}
	line, err := record.Encode(rec)
	if err == nil {
		err = g.results.write(line)
	}
	if err != nil {
		say("write to the results port: %v", err)
	}
}

// miss notes optional parts that are missing, for the hello record, and says so.
func (g *guest) miss(what ...string) {
	for _, w := range what {
		say("%s", w)
	}
	g.missing = append(g.missing, what...)
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "init: "+format+"\n", args...)
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find interface lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring interface lo up: %w", err)
	}
	return nil
}
