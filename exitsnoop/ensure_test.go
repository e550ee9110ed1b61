package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/retry"
)

// bpfRoot is a root on a BPF file system.
func bpfRoot(t *testing.T, flags uintptr) string {
	dir := root(t)
	if err := unix.Mount("bpf", dir, "bpf", flags, ""); err != nil {
		t.Skipf("mount bpffs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// tree lists the files below a directory, and the mounts there.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		fmt.Fprintln(&b, path, err)
		return nil
	})
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for l := range strings.Lines(string(mounts)) {
		if strings.Contains(l, dir) {
			b.WriteString(l)
		}
	}
	return b.String()
}

// works checks that exits are recorded.
func works(t *testing.T, dir string) {
	t.Helper()
	s := pinnedStore(t, dir)
	pid := sleeper(t)
	id, err := s.TraceProcess(pid)
	ok(t, err)
	truth := end(t, pid)
	st, err := s.GetExitedEvent(id)
	ok(t, err)
	if st.WaitStatus() != truth {
		t.Errorf("got status %#x, want %#x as from wait4", st.ExitCode, truth)
	}
	ok(t, s.DeleteExitedEvent(id))
}

func TestEnsureRunning(t *testing.T) {
	for _, on := range []string{"other", "bpffs"} {
		t.Run(on, func(t *testing.T) {
			dir := root(t)
			if on == "bpffs" {
				dir = bpfRoot(t, 0)
			}
			before := tree(t, dir)
			_, err := NewStore(dir)
			want(t, err, ErrNotRunning)
			want(t, Clean(dir), ErrNotRunning)
			done, err := EnsureRunningWith(dir, Options{MaxEvents: 100})
			ok(t, err)
			if *done != (Setup{Started: true}) {
				t.Errorf("first time %+v", done)
			}
			works(t, dir)
			done, err = EnsureRunningWith(dir, Options{})
			ok(t, err)
			if *done != (Setup{}) {
				t.Errorf("second time %+v", done)
			}
			works(t, dir)
			ok(t, Clean(dir))
			if after := tree(t, dir); after != before {
				t.Errorf("left behind:\n%s", after)
			}
			want(t, Clean(dir), ErrNotRunning)
		})
	}
}

func TestFaults(t *testing.T) {
	needKernel(t)
	injected := errors.New("injected")
	types, err := kernelTypes(new(Options)) // read once, as it takes a part of each call
	ok(t, err)
	var steps []string
	dir := root(t)
	_, err = EnsureRunningWith(dir, Options{types: types, fail: func(step string) error {
		steps = append(steps, step)
		return nil
	}})
	ok(t, err)
	ok(t, Clean(dir))
	if len(steps) < 10 {
		t.Fatalf("steps %q", steps)
	}
	for _, step := range steps {
		t.Run(strings.ReplaceAll(step, "/", "_"), func(t *testing.T) {
			dir := root(t)
			before, descriptors := tree(t, dir), held(t)
			_, err := EnsureRunningWith(dir, Options{types: types, fail: func(s string) error {
				if s == step {
					return injected
				}
				return nil
			}})
			want(t, err, injected)
			if after := tree(t, dir); after != before {
				t.Errorf("left behind:\n%s", after)
			}
			// Pins and descriptors keep a program alive.
			if n := held(t); n > descriptors {
				t.Errorf("got %d open descriptors and mappings, want 0", n-descriptors)
			}
			_, err = EnsureRunningWith(dir, Options{types: types})
			ok(t, err)
			s, err := NewStore(dir)
			ok(t, err)
			ok(t, s.Close())
			if n := held(t); n > descriptors {
				t.Errorf("%d descriptors and mappings are left open after success", n-descriptors)
			}
			works(t, dir)
		})
	}
}

// held counts the eBPF objects that this process holds: descriptors, and mapped maps.
func held(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	ok(t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, "anon_inode:bpf") {
			n++
		}
	}
	mapped, err := os.ReadFile("/proc/self/maps")
	ok(t, err)
	return n + strings.Count(string(mapped), "anon_inode:bpf")
}

// unpinAll removes pins, and waits until the kernel has detached and freed the programs of the
// removed links, which takes a moment.
func unpinAll(t *testing.T, p *pinDir, names ...string) {
	t.Helper()
	var programs []ebpf.ProgramID
	for _, name := range names {
		if slices.Contains(linkNames, name) {
			l, err := link.LoadPinnedLink(p.pin(name), nil)
			ok(t, err)
			info, err := l.Info()
			ok(t, err)
			ok(t, l.Close())
			programs = append(programs, info.Program)
			ok(t, os.Remove(p.pin(name)))
			continue
		}
		ok(t, os.Remove(p.pin(name)))
	}
	for range retry.For(30 * time.Second) {
		if len(programs) == 0 {
			return
		}
		program, err := ebpf.NewProgramFromID(programs[0])
		if errors.Is(err, os.ErrNotExist) {
			programs = programs[1:]
			continue
		}
		ok(t, err)
		program.Close()
	}
	t.Fatalf("programs %d still run", programs)
}

func TestConcurrent(t *testing.T) {
	dir := root(t)
	var all []*exec.Cmd
	for range 8 {
		c := child("ensure", dir)
		ok(t, c.Start())
		all = append(all, c)
	}
	for _, c := range all {
		ok(t, c.Wait())
	}
	works(t, dir)
	done, err := EnsureRunningWith(dir, Options{})
	ok(t, err)
	if *done != (Setup{}) {
		t.Errorf("after all: %+v", done)
	}
}

func TestRepair(t *testing.T) {
	sets := [][]string{linkNames}
	for _, name := range slices.Concat(linkNames, mapNames) {
		sets = append(sets, []string{name})
	}
	for _, missing := range sets {
		t.Run(strings.Join(missing, ","), func(t *testing.T) {
			dir := root(t)
			p := newPinDir(dir)
			ok(t, EnsureRunning(dir))
			s := pinnedStore(t, dir)
			before, during, after := sleeper(t), sleeper(t), sleeper(t)
			for i, pid := range []uint32{before, during, after} {
				ok(t, s.Trace(pid, &TaskInfo{TraceID: uint64(i + 1)}))
			}
			end(t, before)
			s.Close()
			unpinAll(t, p, missing...)
			end(t, during)
			done, err := EnsureRunningWith(dir, Options{})
			ok(t, err)
			wantDone := Setup{Repaired: true}
			var wantDuring error
			if len(missing) > 1 {
				wantDone, wantDuring = Setup{Repaired: true, Started: true, Lost: 1}, ErrLost
			}
			if *done != wantDone {
				t.Errorf("done %+v, want %+v", *done, wantDone)
			}
			end(t, after)
			s = pinnedStore(t, dir)
			for id, what := range map[uint64]error{1: nil, 2: wantDuring, 3: nil} {
				_, err := s.GetExitedEvent(id)
				if !errors.Is(err, what) {
					t.Errorf("trace %d: %v, want %v", id, err, what)
				}
			}
			works(t, dir)
		})
	}
}

func TestForeign(t *testing.T) {
	newMap := func(spec *ebpf.MapSpec, path string) {
		m, err := ebpf.NewMap(spec)
		ok(t, err)
		defer m.Close()
		ok(t, m.Pin(path))
	}
	array := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, p *pinDir)
		err  error
	}{
		{"file for directory", func(t *testing.T, p *pinDir) { ok(t, os.WriteFile(p.dir, nil, 0o600)) }, ErrNotDirectory},
		{"files in directory", func(t *testing.T, p *pinDir) {
			ok(t, os.Mkdir(p.dir, 0o700))
			ok(t, os.WriteFile(p.dir+"/x", nil, 0o600))
		}, ErrForeign},
		{"foreign pin beside", func(t *testing.T, p *pinDir) { ok(t, EnsureRunning(p.root)); newMap(array, p.dir+"/x") }, ErrForeign},
		{"foreign pin within", func(t *testing.T, p *pinDir) { ok(t, EnsureRunning(p.root)); newMap(array, p.pin("x")) }, ErrForeign},
		{"wrong shape", func(t *testing.T, p *pinDir) {
			ok(t, EnsureRunning(p.root))
			unpinAll(t, p, append(linkNames, mapNames[1])...)
			newMap(array, p.pin(mapNames[1]))
		}, ErrShape},
		{"another map of the right shape", func(t *testing.T, p *pinDir) {
			ok(t, EnsureRunning(p.root))
			ok(t, os.Remove(p.pin(mapNames[1])))
			spec, err := mapSpecs(new(Options))
			ok(t, err)
			newMap(spec.Maps[mapNames[1]], p.pin(mapNames[1]))
		}, ErrForeign},
		{"map for link", func(t *testing.T, p *pinDir) {
			ok(t, EnsureRunning(p.root))
			unpinAll(t, p, linkNames[0])
			newMap(array, p.pin(linkNames[0]))
		}, ErrForeign},
		{"newer version", func(t *testing.T, p *pinDir) {
			ok(t, EnsureRunning(p.root))
			ok(t, os.Rename(p.pins, p.dir+"/v2"))
		}, ErrNewerVersion},
		{"locked", func(t *testing.T, p *pinDir) {
			unlock, err := p.lock(0)
			ok(t, err)
			t.Cleanup(unlock)
		}, ErrLocked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := root(t)
			tt.make(t, newPinDir(dir))
			before := tree(t, dir)
			_, err := EnsureRunningWith(dir, Options{LockWait: 10 * time.Millisecond})
			want(t, err, tt.err)
			if after := tree(t, dir); after != before {
				t.Errorf("want\n%s\ngot\n%s", before, after)
			}
			if errors.Is(tt.err, ErrShape) {
				_, err := NewStore(dir)
				want(t, err, tt.err)
			}
		})
	}
	t.Run("file for root", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		ok(t, os.WriteFile(file, nil, 0o600))
		want(t, EnsureRunning(file), ErrNotDirectory)
		want(t, EnsureRunning(file+"2"), os.ErrNotExist)
	})
	t.Run("read-only bpffs", func(t *testing.T) {
		dir := bpfRoot(t, 0)
		ok(t, os.Mkdir(filepath.Join(dir, dirNameBPFFS), 0o700))
		ok(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		want(t, EnsureRunning(dir), ErrReadOnly)
		want(t, EnsureRunning(dir), unix.EROFS)
	})
	t.Run("read-only bpffs, empty", func(t *testing.T) {
		dir := bpfRoot(t, unix.MS_RDONLY)
		want(t, EnsureRunning(dir), ErrReadOnly)
	})
}
