package exitsnoop

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// Setup is the result of EnsureRunningWith.
type Setup struct {
	// Started is set if the program was not running, Repaired if a pin was missing.
	Started, Repaired bool

	// Lost counts traces of processes that ended without a record. They are [ErrLost] now.
	Lost int
}

// EnsureRunning loads the program and pins it below a directory, in .exitsnoop.bpf/v1 (exitsnoop/v1
// if the directory is on a BPF file system). The program runs until [Clean] or a reboot. If the
// program runs already, EnsureRunning verifies it, recreates missing pins, and keeps the recorded
// state. EnsureRunning mounts a BPF file system if the directory is not on one. Any number of
// processes may call EnsureRunning at the same time.
//
// An error leaves everything unchanged. The error is one of ErrNotDirectory, ErrNoBPFFS,
// ErrReadOnly, ErrForeign, ErrShape, ErrNewerVersion, ErrLocked, ErrPermission and ErrUnsupported,
// or the kernel's.
func EnsureRunning(bpffsRoot string) error {
	_, err := EnsureRunningWith(bpffsRoot, Options{})
	return err
}

// EnsureRunningWith is EnsureRunning with options. It returns the changes that it made.
func EnsureRunningWith(bpffsRoot string, o Options) (*Setup, error) {
	p := newPinDir(bpffsRoot)
	e := &ensurer{pinDir: p, o: &o}
	if err := e.run(); err != nil {
		return nil, fmt.Errorf("run exitsnoop below %s: %w", bpffsRoot, err)
	}
	return &e.done, nil
}

// ensurer is one call of EnsureRunning.
type ensurer struct {
	*pinDir
	o     *Options
	maps  maps  // opened or created
	links links // opened or attached
	done  Setup
	undo  []func() error // rollback functions, in the order of the steps
}

func (e *ensurer) run() (err error) {
	if kernelversion.Realtime() && !kernelversion.AtLeast("6.5") {
		// The kernel frees a link in an RCU callback that waits for RCU, so the machine
		// would hang.
		return fmt.Errorf("%w: with PREEMPT_RT the removal of a pin hangs before Linux 6.5", ErrUnsupported)
	}
	unlock, err := e.lock(cmp.Or(e.o.LockWait, defaultLockWait))
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, e.rollBack())
		}
		e.links.close() // a pinned link stays attached
		e.maps.close()
	}()
	if err := e.makeDirectories(); err != nil {
		return err
	}
	if _, err := e.newestVersion(); err != nil {
		return err
	}
	return e.start()
}

func (e *ensurer) onError(f func() error) { e.undo = append(e.undo, f) }

func (e *ensurer) rollBack() (err error) {
	for _, f := range slices.Backward(e.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// makeDirectories creates missing directories and mounts the BPF file system.
func (e *ensurer) makeDirectories() error {
	if err := e.mkdir(e.dir); err != nil {
		return err
	}
	yes, err := onBPFFS(e.dir)
	if err != nil {
		return err
	}
	if !yes {
		if err := e.mount(); err != nil {
			return err
		}
	}
	return e.mkdir(e.pins)
}

func (e *ensurer) mkdir(path string) error {
	if err := e.o.step("mkdir " + path[len(e.root):]); err != nil {
		return err
	}
	if is, err := isDirectory(path); is || err != nil {
		return err
	}
	err := os.Mkdir(path, 0o700)
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("make %s: %w: %w", path, ErrReadOnly, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("make %s: %w: %w", path, ErrPermission, err)
	case err != nil:
		return err
	}
	e.onError(func() error { return os.Remove(path) })
	return nil
}

func (e *ensurer) mount() error {
	if list, err := os.ReadDir(e.dir); err != nil {
		return err
	} else if len(list) > 0 {
		// A mount would hide the file.
		return fmt.Errorf("%s: %w", filepath.Join(e.dir, list[0].Name()), ErrForeign)
	}
	if err := e.o.step("mount"); err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME)
	if err := unix.Mount("bpf", e.dir, "bpf", flags, "mode=700"); errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("mount on %s: %w: %w: %w", e.dir, ErrUnsupported, ErrNoBPFFS, err)
	} else if err != nil {
		return fmt.Errorf("mount on %s: %w: %w", e.dir, ErrNoBPFFS, err)
	}
	e.onError(func() error { return unix.Unmount(e.dir, 0) })
	return nil
}

// start opens the pinned maps and links, and creates missing ones.
func (e *ensurer) start() (err error) {
	if err := e.checkForeign(); err != nil {
		return err
	}
	pinned, err := e.open()
	if err != nil {
		return err
	}
	running := e.links.any(programsProgHandleSchedProcessExit, programsProgHandleSchedProcessExitTwin)
	following := e.links.any(programsProgHandleSchedProcessFork, programsProgHandleSchedWakeupNew)
	missing, found := e.links.missing(), pinned > 0
	e.done.Started = !running
	e.done.Repaired = found && pinned < len(mapNames)+len(linkNames)
	if len(missing) > 0 {
		if err := e.o.step("load"); err != nil {
			return err
		}
		if err := attach(e.o, e.maps, e.links); err != nil {
			return err
		}
	}
	if err := e.pinMissing(missing); err != nil || running && following || !found {
		return err
	}
	return e.catchUp(!running)
}

// catchUp handles processes that ended or forked while programs did not run. If ends may be
// missing, it marks traces without a process as lost. It also traces new children of trees.
func (e *ensurer) catchUp(endsMissing bool) (err error) {
	s := newStore(e.maps, nil)
	if endsMissing {
		e.done.Lost, err = s.sweepLost()
	}
	if err == nil {
		err = s.traceExisting(0)
	}
	if errors.Is(err, ErrNamespace) || errors.Is(err, errBlocked) {
		return nil // processes cannot be looked up here, or now; a later caller does it
	}
	return err
}

// open opens the pinned maps and links and returns their number. It checks that the links are
// attached to our tracepoint and use the pinned maps, and opens their unpinned maps.
func (e *ensurer) open() (pinned int, err error) {
	if e.maps, err = e.openMaps(); err != nil {
		return 0, err
	}
	if e.links, err = openPins(e.pinDir, linkNames, link.LoadPinnedLink); err != nil {
		return 0, err
	}
	pinned = len(e.maps) + len(e.links)
	for name, l := range e.links {
		if err := e.adoptLink(name, l); err != nil {
			return 0, fmt.Errorf("%s: %w", e.pin(name), err)
		}
	}
	return pinned, nil
}

func (e *ensurer) adoptLink(name string, l link.Link) error {
	spec, err := layout()
	if err != nil {
		return err
	}
	own := spec.Programs[name]
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("read info of the link: %w", err)
	}
	if attachedTo(info) != own.AttachTo {
		return fmt.Errorf("%w: the link is not attached to tracepoint %s", ErrForeign, own.AttachTo)
	}
	program, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return fmt.Errorf("open the program of the link: %w", err)
	}
	defer program.Close()
	of, err := program.Info()
	if err != nil {
		return fmt.Errorf("read info of the program: %w", err)
	}
	ids, _ := of.MapIDs()
	used := own.Instructions.ReferenceOffsets()
	for _, name := range mapNames {
		if used[name] == nil {
			continue
		}
		if err := e.adoptMap(name, ids); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensurer) adoptMap(name string, ids []ebpf.MapID) error {
	if m := e.maps[name]; m != nil {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("read info of map %s: %w", name, err)
		}
		if id, ok := info.ID(); !ok || !slices.Contains(ids, id) {
			return fmt.Errorf("%w: the running program does not use the pinned map %s", ErrForeign, name)
		}
		return nil
	}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return fmt.Errorf("open a map of the running program: %w", err)
		}
		// The kernel cuts names to 15 characters.
		if info, err := m.Info(); err == nil && info.Name == name[:min(len(name), 15)] && checkLayout(name, m) == nil {
			e.maps[name] = m
			return nil
		}
		m.Close()
	}
	return fmt.Errorf("%w: the running program has no map %s", ErrForeign, name)
}

// pinMissing pins the unpinned maps, then the missing links. So a pinned link means that all maps
// are pinned.
func (e *ensurer) pinMissing(missing []string) error {
	for _, name := range mapNames {
		if e.maps[name].IsPinned() {
			continue
		}
		if err := e.pinOne(name, e.maps[name].Pin); err != nil {
			return err
		}
	}
	for _, name := range missing {
		if err := e.pinOne(name, e.links[name].Pin); err != nil {
			return err
		}
	}
	return nil
}

// pinOne calls pin with the path of name, and registers its removal for a rollback.
func (e *ensurer) pinOne(name string, pin func(path string) error) error {
	if err := e.o.step("pin " + name); err != nil {
		return err
	}
	path := e.pin(name)
	if err := pin(path); err != nil {
		return kernelError("pin "+path, err)
	}
	e.onError(func() error { return os.Remove(path) })
	return e.o.step("pinned " + name)
}

// Verify reports whether the program that EnsureRunning has started is running. It changes nothing.
// If a pin is missing, the error is ErrNotRunning. Other errors are as in EnsureRunning.
func Verify(bpffsRoot string) error {
	e := &ensurer{pinDir: newPinDir(bpffsRoot), o: new(Options)}
	if err := e.verify(); err != nil {
		return fmt.Errorf("verify exitsnoop below %s: %w", bpffsRoot, err)
	}
	return nil
}

func (e *ensurer) verify() error {
	unlock, err := e.lock(defaultLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	if is, err := isDirectory(e.pins); err != nil || !is {
		return errors.Join(err, ErrNotRunning)
	}
	defer func() {
		e.links.close()
		e.maps.close()
	}()
	pinned, err := e.open()
	if err == nil && pinned < len(mapNames)+len(linkNames) {
		err = fmt.Errorf("%w: a part is missing", ErrNotRunning)
	}
	return err
}
