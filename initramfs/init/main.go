//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
)

// statusInit is the status in the end record when init itself fails. krun.sh returns the same
// status for a guest that does not report.
const statusInit = 125

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: runs only as pid 1 of a guest, and powers the machine off")
		os.Exit(2)
	}
	// The Go runtime's handlers would end pid 1 at some signals, so init receives all signals
	// and drops them. It does not ignore signals, because the command would also ignore them.
	signal.Notify(make(chan os.Signal, 1))

	g := &guest{}
	g.end(g.run())
}

const resultsLink = "/run/quark-results"

// guest is the machine that init runs in.
type guest struct {
	port    *os.File // for the records, nil if there is none
	results *record.Writer
	missing []string // optional parts that could not be set up
}

// run sets the guest up and runs its command. It returns the guest's last record, even after a
// panic.
func (g *guest) run() (e record.End) {
	defer func() {
		if r := recover(); r != nil {
			say("panic: %v\n%s", r, debug.Stack())
			e = record.End{Status: statusInit, Error: fmt.Sprintf("init panicked: %v", r)}
		}
	}()

	// The kernel starts pid 1 without a session, which the results port needs: see openPort.
	if _, err := unix.Setsid(); err != nil {
		g.addMissing(fmt.Sprintf("setsid: %v", err))
	}
	missing, mountErr := mountAll(mounts, mount.do)
	g.addMissing(missing...)

	var opts options
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err == nil {
		opts, err = parseOptions(string(cmdline))
	}
	cgroups := cgroup2
	if opts.cgroup1 {
		cgroups = cgroup1
	}
	missing, _ = mountAll(cgroups, mount.do) // no cgroup mount is required
	g.addMissing(missing...)
	// The port is opened before errors are returned, as they are sent to it.
	if port, portErr := openPort("/dev/" + opts.results); portErr != nil {
		say("%v: the results of the command are lost", portErr)
	} else {
		g.port, g.results = port, record.NewWriter(port)
	}
	err = cmp.Or(mountErr, err)
	if err == nil && opts.hideBTF {
		err = hideBTF()
	}
	if err != nil {
		return record.End{Status: statusInit, Error: err.Error()}
	}
	// Commands use this name of the port, which is the same on every machine.
	if err := os.Symlink("/dev/"+opts.results, resultsLink); err != nil {
		g.addMissing(err.Error())
	}
	if err := loopbackUp(); err != nil {
		g.addMissing(err.Error())
	}
	g.send(g.hello())
	e = runCommand(opts)
	for _, path := range opts.kept() {
		err := g.sendFile(path)
		if e.Status != 0 && errors.Is(err, fs.ErrNotExist) {
			continue // a command may fail before it creates the file
		}
		if err != nil && e.Error == "" {
			e.Error = fmt.Sprintf("send a file: %v", err)
		}
	}
	return e
}

// sendFile sends a file of the guest under its base name.
func (g *guest) sendFile(path string) error {
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
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		g.addMissing(fmt.Sprintf("uname: %v", err))
	}
	var mem unix.Sysinfo_t
	if err := unix.Sysinfo(&mem); err != nil {
		g.addMissing(fmt.Sprintf("sysinfo: %v", err))
	}
	return record.Hello{
		Kernel:   unix.ByteSliceToString(u.Release[:]),
		Version:  unix.ByteSliceToString(u.Version[:]),
		Arch:     runtime.GOARCH,
		CPUs:     runtime.NumCPU(),
		MemoryKB: uint64(mem.Totalram) * uint64(mem.Unit) / 1024,
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
	if g.port != nil {
		if err := record.Drain(g.port); err != nil {
			say("drain the results port: %v", err)
		}
	}
	record.Drain(os.Stdout) // an error cannot be printed
	powerOff()
}

// powerOff does not return.
func powerOff() {
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	say("power off: %v", err)
	// A machine that cannot power off may be able to reboot, which ends qemu too.
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	say("reboot: %v", err)
	select {} // until the host's deadline
}

func (g *guest) send(rec any) {
	if err := g.results.Write(rec); err != nil {
		say("results port: %v", err)
	}
}

// addMissing adds and prints missing optional parts, for the hello record.
func (g *guest) addMissing(what ...string) {
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
		return fmt.Errorf("start interface lo: %w", err)
	}
	return nil
}
