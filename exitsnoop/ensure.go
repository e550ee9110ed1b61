package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Setup is what EnsureRunningWith did.
type Setup struct {
	// Started is set if the program did not run, and Repaired if a part of what
	// is pinned was missing.
	Started, Repaired bool

	// Tasks and Events are how many traced processes and exits were taken over
	// from an older version.
	Tasks, Events int

	// Lost are traces whose process had ended unrecorded. They are [ErrLost] now.
	Lost int
}

// EnsureRunning has the program run and its state pinned below a directory, in
// .exitsnoop.bpf/v1 (exitsnoop/v1 where that is on a BPF file system), until it is removed with [Clean] or the machine ends. If
// that runs already it is verified and nothing else done, and if a part of it is
// missing that is repaired, with what is known kept. A BPF file system is mounted where the
// directory is not on one. Any number of processes may call it at once.
//
// After an error everything is as it was before. The error may be one of
// ErrNotDirectory, ErrNoBPFFS, ErrReadOnly, ErrForeign, ErrShape,
// ErrNewerVersion, ErrLocked, ErrPermission, ErrUnsupported and ErrFull (when
// what an older version knows does not fit in).
func EnsureRunning(bpffsRoot string) error {
	_, err := EnsureRunningWith(bpffsRoot, Options{})
	return err
}

// EnsureRunningWith is EnsureRunning with options, and says what it did.
func EnsureRunningWith(bpffsRoot string, o Options) (*Setup, error) {
	p := newPlace(bpffsRoot)
	e := &ensurer{place: p, o: &o}
	if err := e.run(); err != nil {
		return nil, fmt.Errorf("run exitsnoop below %s: %w", bpffsRoot, err)
	}
	return &e.done, nil
}

// ensurer is a call of EnsureRunning.
type ensurer struct {
	*place
	o     *Options
	maps  maps // opened or made, as the links are
	links links
	done  Setup
	undo  []func() error // newest last
}

func (e *ensurer) run() (err error) {
	wait := e.o.LockWait
	if wait == 0 {
		wait = defaultLockWait
	}
	unlock, err := e.lock(wait)
	if err != nil {
		return err
	}
	defer unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, e.rollBack())
		}
		e.links.close() // pinned ones go on
		e.maps.close()
	}()
	if err := e.makeDirectories(); err != nil {
		return err
	}
	old, _, err := e.survey()
	if err != nil {
		return err
	}
	if err := e.start(); err != nil {
		return err
	}
	if old {
		if err := e.takeOver(); err != nil {
			return fmt.Errorf("take over from version 0: %w", err)
		}
	}
	return nil
}

func (e *ensurer) onError(f func() error) { e.undo = append(e.undo, f) }

func (e *ensurer) rollBack() (err error) {
	for _, f := range slices.Backward(e.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// makeDirectories makes what is missing of the directories and mounts.
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
	if is, err := directory(path); is || err != nil {
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
		// A mount would hide it.
		return fmt.Errorf("%s: %w", e.pathOf(list[0].Name()), ErrForeign)
	}
	if err := e.o.step("mount"); err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME)
	if err := unix.Mount("bpf", e.dir, "bpf", flags, "mode=700"); err != nil {
		return fmt.Errorf("mount on %s: %w: %w", e.dir, ErrNoBPFFS, err)
	}
	e.onError(func() error { return unix.Unmount(e.dir, 0) })
	return nil
}

func (p *place) pathOf(name string) string { return p.dir + "/" + name }

// start has the program run with what is pinned already.
func (e *ensurer) start() (err error) {
	if err := e.onlyOurs(); err != nil {
		return err
	}
	if e.maps, err = e.openMaps(); err != nil {
		return err
	}
	if e.links, err = e.openLinks(); err != nil {
		return err
	}
	running, missing := len(e.links) > 0, e.links.missing()
	found := running || len(e.maps) > 0
	e.done.Started = !running
	e.done.Repaired = found && (len(missing) > 0 || len(e.maps) < len(mapNames))
	if err := e.recover(); err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := e.o.step("load"); err != nil {
			return err
		}
		if err := attach(e.o, e.maps, e.links); err != nil {
			return err
		}
	}
	if err := e.pinMissing(missing); err != nil || running || !found {
		return err
	}
	// What was traced may have ended meanwhile.
	return e.find()
}

// find puts the traces whose process has ended unrecorded on record.
func (e *ensurer) find() (err error) {
	s, err := newStore(e.maps, nil)
	if err != nil {
		return err
	}
	defer s.filter.close()
	e.done.Lost, err = s.sweep()
	if errors.Is(err, ErrNamespace) {
		return nil // this caller cannot know; another will find them
	}
	return err
}

// recover checks that the pinned links are ours, alive and of the pinned maps, and
// opens those of their maps that are not pinned.
func (e *ensurer) recover() error {
	for _, name := range linkNames {
		if l := e.links[name]; l != nil {
			if err := e.recoverLink(name, l); err != nil {
				return fmt.Errorf("%s: %w", e.pin(name), err)
			}
		}
	}
	return nil
}

func (e *ensurer) recoverLink(name string, l link.Link) error {
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("examine the link: %w", err)
	}
	if raw := info.RawTracepoint(); raw == nil || raw.Name != tracepoint {
		return fmt.Errorf("%w: it is not attached to raw tracepoint %s", ErrForeign, tracepoint)
	}
	program, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return fmt.Errorf("open its program: %w", err)
	}
	defer program.Close()
	of, err := program.Info()
	if err != nil {
		return fmt.Errorf("examine its program: %w", err)
	}
	ids, _ := of.MapIDs()
	for _, name := range mapNames {
		if err := e.recoverMap(name, ids); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensurer) recoverMap(name string, ids []ebpf.MapID) error {
	if m := e.maps[name]; m != nil {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("examine map %s: %w", name, err)
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
		if info, err := m.Info(); err == nil && info.Name == name[:min(len(name), 15)] && shaped(name, m) == nil {
			e.maps[name] = m
			return nil
		}
		m.Close()
	}
	return fmt.Errorf("%w: its program has no map %s", ErrForeign, name)
}

// pinMissing pins the maps that are not, and the links given, as the last: who
// finds them finds all.
func (e *ensurer) pinMissing(missing []string) error {
	for _, name := range mapNames {
		if e.maps[name].IsPinned() {
			continue
		}
		if err := e.pinOne(name, e.maps[name].Pin, os.Remove); err != nil {
			return err
		}
	}
	for _, name := range missing {
		if err := e.pinOne(name, e.links[name].Pin, e.unpinLink); err != nil {
			return err
		}
	}
	return nil
}

// pinOne pins at the path of name what remove, given that path, removes if all fails.
func (e *ensurer) pinOne(name string, pin, remove func(path string) error) error {
	if err := e.o.step("pin " + name); err != nil {
		return err
	}
	path := e.pin(name)
	if err := pin(path); err != nil {
		return explain("pin "+path, err)
	}
	e.onError(func() error { return remove(path) })
	return e.o.step("pinned " + name)
}

// Verify checks, and changes nothing, that what EnsureRunning has started is
// there and alive. The error may be ErrNotRunning, also where a part is missing, and most of those of
// EnsureRunning.
func Verify(bpffsRoot string) error {
	e := &ensurer{place: newPlace(bpffsRoot), o: new(Options)}
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
	if is, err := directory(e.pins); err != nil || !is {
		return errors.Join(err, ErrNotRunning)
	}
	defer func() { e.maps.close() }()
	if e.maps, err = e.openMaps(); err != nil {
		return err
	}
	pinned := len(e.maps)
	defer func() { e.links.close() }()
	if e.links, err = e.openLinks(); err != nil {
		return err
	}
	if len(e.links) < len(linkNames) || pinned < len(mapNames) {
		return fmt.Errorf("%w: a part is missing", ErrNotRunning)
	}
	return e.recover()
}
